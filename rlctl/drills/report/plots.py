"""Turns a matplotlib figure into SVG that lives inside a page: its text is text, its colours are the page's. Pure."""

import io
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#0000a0"
FAINT = "#0000a1"
CARD = "#0000a2"
# Drawn in stand-ins that occur nowhere else; the page says what they look like in the light and in the dark.
_PAGE = {INK: "currentColor", FAINT: "var(--line)", CARD: "var(--card)"}
_NAMES = ("acked", "refused", "indeterminate", "lost", "primary", "replica", "silent", "sentinel", "cut", "kill")
_CLIENTS = ("client-0", "client-1", "client-2", "client-3")
COLOURS = {name: f"#0000b{place:x}" for place, name in enumerate(_NAMES)}
CLIENT_COLOURS = tuple(f"#0000c{place:x}" for place in range(len(_CLIENTS)))
_PAGE |= {colour: f"var(--{name})" for name, colour in COLOURS.items()}
_PAGE |= {colour: f"var(--{name})" for colour, name in zip(CLIENT_COLOURS, _CLIENTS, strict=True)}
LETTER_PT = 5.0
WIDTH_IN = 10.0
POINTS = 72

_SVG = "{http://www.w3.org/2000/svg}"
# Which keys matplotlib knows is another matter in each of its versions.
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": FAINT,
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
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0.0,
}


def plot(name: str, says: str, height_in: float, paint: Callable[["Figure"], None]) -> Markup:
    """Draw a figure; `name` keeps its ids apart from other plots', `says` is for who cannot see it."""
    # Where no home folder can be written it complains about its cache, and works all the same.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # Importing it takes longer than most commands run.
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    drawn = io.BytesIO()
    with rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH_IN, height_in))
        FigureCanvasSVG(figure)
        paint(figure)
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _for_page(drawn.getvalue(), name, says)


def panel(figure: "Figure", top_in: float, height_in: float, title: str = "") -> "Axes":
    """A strip of the figure, so far from its top; all strips have the same width."""
    whole_in = figure.get_figheight()
    left, width = 0.075, 0.905
    axes = figure.add_axes((left, 1 - (top_in + height_in) / whole_in, width, height_in / whole_in))
    # The lines of instants run through all panels, and behind the titles between them.
    axes.set_title(title, bbox={"facecolor": CARD, "edgecolor": "none", "pad": 1.5})
    return axes


def panel_letters() -> float:
    """How many letters fit beside each other in a panel."""
    return WIDTH_IN * POINTS * 0.905 / LETTER_PT


def _for_page(svg: bytes, name: str, says: str) -> Markup:
    root = ET.fromstring(svg)  # noqa: S314  it was drawn above
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
    root.attrib.update({"role": "img", "aria-label": says})
    return Markup(ET.tostring(root, encoding="unicode"))  # noqa: S704  serialised from a tree, all text escaped


def _attribute(key: str, value: str, name: str) -> str:
    local = key.rpartition("}")[2]
    if local == "id":
        return f"{name}-{value}"
    if local == "href":
        return f"#{name}-{value.removeprefix('#')}"
    for stand_in, colour in _PAGE.items():
        value = value.replace(stand_in, colour)
    return value.replace("url(#", f"url(#{name}-")
