"""Draws plots as SVG elements whose colours and fonts come from the style sheet of the page. Pure."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings
from xml.etree import ElementTree as ET

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 10.0
POINTS_PER_INCH = 72
LETTER_PT = 5.0
_LEFT, _PANEL_WIDTH = 0.075, 0.905
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_SVG = "{http://www.w3.org/2000/svg}"
# Maps each placeholder colour that matplotlib draws with to the CSS variable that replaces it.
_VARIABLES: dict[str, str] = {}


def css_colour(name: str) -> str:
    """Return a placeholder colour to draw with. The finished plot has the CSS variable `--name` instead."""
    stand_in = f"#{sha256(name.encode()).hexdigest()[:6]}"
    _VARIABLES[stand_in] = f"var(--{name})"
    return stand_in


INK, LINE, CARD = css_colour("ink"), css_colour("line"), css_colour("card")
SERIES = tuple(css_colour(f"series-{number}") for number in range(1, 7))

# Typed as Any, because the type that matplotlib declares for the keys differs between its versions.
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    # Do not typeset names of rules and nodes as formulas, even if they contain a dollar sign.
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "xtick.color": LINE,
    "xtick.labelcolor": INK,
    "ytick.color": LINE,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0.0,
}


@contextmanager
def drawing(name: str, description: str, *, height_in: float = 4.4) -> Iterator["Drawing"]:
    """A plot to draw on. The ids in its SVG begin with `name`; `description` is its label for screen readers."""
    # Hide the warning that matplotlib cannot write its cache, because matplotlib works without a cache.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # Import matplotlib only here, because it takes longer to load than most commands run.
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context({**_STYLE, "svg.hashsalt": name}):
        yield Drawing(name, description, Figure(figsize=(WIDTH_IN, height_in)))


class Drawing:
    """A plot: either one set of `axes`, or panels below each other."""

    def __init__(self, name: str, description: str, figure: "Figure") -> None:
        self._name = name
        self._description = description
        self._figure = figure

    @cached_property
    def axes(self) -> "Axes":
        """The axes of a plot without panels, as large as the labels allow."""
        self._figure.set_layout_engine("constrained")
        return self._figure.add_subplot()

    def panel(self, top_in: float, height_in: float, title: str = "") -> "Axes":
        """Add axes of the full width, `top_in` inches below the top of the plot."""
        whole_in = self._figure.get_figheight()
        bottom = 1 - (top_in + height_in) / whole_in
        axes = self._figure.add_axes((_LEFT, bottom, _PANEL_WIDTH, height_in / whole_in))
        # The box behind the title hides lines that run through all panels.
        axes.set_title(title, bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1.5})
        return axes

    def svg(self) -> Markup:
        """Return the finished plot as an SVG element."""
        drawn = io.BytesIO()
        with catch_warnings():
            # Ignore missing glyphs, because the browser draws the text with fonts that matplotlib does not know.
            filterwarnings("ignore", r"Glyph .* missing from")
            self._figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        return _page_element(drawn.getvalue(), self._name, self._description)


def panel_letters() -> float:
    """How many letters fit into the width of a panel."""
    return WIDTH_IN * POINTS_PER_INCH * _PANEL_WIDTH / LETTER_PT


def size_words(value: float) -> str:
    """Return a size such as `1.5 GB`, in powers of 1000."""
    unit = 0
    while abs(value) >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.3g} {_UNITS[unit]}"


def _page_element(svg: bytes, name: str, description: str) -> Markup:
    root = ET.fromstring(svg)  # noqa: S314  drawn by matplotlib, not received
    for part in list(root):
        if part.tag.endswith("metadata"):
            root.remove(part)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        attributes = {key.rpartition("}")[2]: _attribute(key, value, name) for key, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update(attributes)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib.update({"role": "img", "aria-label": description})
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704  serialised from a tree, all text escaped


def _attribute(key: str, value: str, name: str) -> str:
    """Rewrite the value of an attribute: prefix ids with `name`, replace placeholder colours by CSS variables."""
    local = key.rpartition("}")[2]
    if local == "id":
        return f"{name}-{value}"
    if local == "href":
        return f"#{name}-{value.removeprefix('#')}"
    if "#" in value:
        for stand_in, variable in _VARIABLES.items():
            value = value.replace(stand_in, variable)
        value = value.replace("url(#", f"url(#{name}-")
    return value
