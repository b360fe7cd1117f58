"""Draws on a figure that takes its colours from the page around it, and gives it as SVG text."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Stand-ins that no drawing uses for itself: the page's style sheet gives each a value, in light and in dark.
INK, GRID = "#010203", "#010204"
SERIES = ("#010301", "#010302", "#010303", "#010304", "#010305", "#010306")
_VARIABLES = {INK: "var(--ink)", GRID: "var(--grid)"} | {
    stand_in: f"var(--series-{number})" for number, stand_in in enumerate(SERIES, start=1)
}
_STAND_INS = re.compile("|".join(_VARIABLES))
# Ids that every figure counts from 1; those that something refers to are hashes.
_NUMBERED = re.compile(r'id="((?:matplotlib\.)?[a-z0-9]+_[0-9]+)"')
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


@contextmanager
def drawing(name: str, *, width: float = 9.0, height: float = 4.2) -> Iterator["Drawing"]:
    """A figure of one plot; `name` keeps its ids apart from those of other figures on the page."""
    from matplotlib import rc_context  # noqa: PLC0415  loads for a second, and only reports draw
    from matplotlib.figure import Figure  # noqa: PLC0415  likewise

    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": INK,
        # Names of rules come from keys: a dollar sign in them begins no formula.
        "text.parse_math": False,
        "axes.edgecolor": GRID,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
    with rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.grid(visible=True, axis="y")
        axes.set_axisbelow(True)
        yield Drawing(name, figure, axes)


class Drawing:
    """One plot under way."""

    def __init__(self, name: str, figure: "Figure", axes: "Axes") -> None:
        self.axes = axes
        self._name = name
        self._figure = figure

    def bytes_axis(self) -> None:
        """Sizes in words on the upright axis."""
        self.axes.yaxis.set_major_formatter(lambda value, _position: size_words(value))

    def svg(self, title: str) -> str:
        """The plot as an element of a page, told to who cannot see it by its title."""
        self._figure.patch.set_visible(False)
        self.axes.patch.set_visible(False)
        sink = io.StringIO()
        with catch_warnings():
            # The browser draws the text, and has fonts of its own.
            filterwarnings("ignore", r"Glyph .* missing from")
            self._figure.savefig(sink, format="svg", metadata=_NO_METADATA)
        text = sink.getvalue()
        body = _STAND_INS.sub(lambda found: _VARIABLES[found[0]], text[text.index("<svg") :])
        body = _NUMBERED.sub(rf'id="{self._name}-\1"', body)
        return body.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def size_words(value: float) -> str:
    """`1.5 GB`, in powers of 1000."""
    unit = 0
    while abs(value) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"
