"""The colours of drill plots, by the names of the CSS variables in `drill.css`. Pure."""

from rlctl.reports.drawing import css_colour

_NAMES = ("acked", "refused", "indeterminate", "lost", "primary", "replica", "silent", "sentinel", "cut", "kill")
COLOURS = {name: css_colour(name) for name in _NAMES}
