"""The HTML page of every report: one file without scripts or network access, for light and dark mode. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text cells. The columns from index `numbers_from` on contain numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers_from: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A section of a page: a heading, an explanation, a plot as SVG, and the table behind the plot."""

    title: str
    text: str
    svg: str = ""
    table: Table | None = None


def page(command: str, title: str, text: str, chapters: Sequence[Chapter]) -> str:
    """Return the HTML of a page. `command` is the command that made the page."""
    template = environment().get_template("chapters.html.j2")
    return template.render(command=command, title=title, text=text, chapters=chapters)


def environment(*folders: Path) -> "Environment":
    """A Jinja environment for templates in `folders` that extend `page.html.j2`."""
    # Import Jinja only here, because it takes longer to load than most commands run.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    return Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
