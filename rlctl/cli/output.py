"""Results on stdout, everything else on stderr; colours only where a person looks."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlctl.cli.streams import drop
from rlctl.cli.visible import visible, visible_cell

if TYPE_CHECKING:
    from rich.console import Console

# A pipe has no width: nothing is cut or wrapped there.
_PIPE_WIDTH = 10_000
STYLES = {
    "healthy": "green",
    "agreeing": "green",
    "ok": "green",
    "done": "green",
    "pass": "green",
    "degraded": "yellow",
    "warning": "yellow",
    "unknown": "yellow",
    "unfinished": "yellow",
    "inconclusive": "yellow",
    "critical": "red",
    "absent": "red",
    "down": "red",
    "fail": "red",
    "missed": "red",
}


def complain(text: str) -> None:
    """Write to stderr. Where that fails, on a full disk or without a reader, this text and all further text is lost."""
    try:
        print(visible(text), file=sys.stderr, flush=True)  # noqa: T201  what is no result leaves here and nowhere else
    except OSError:
        drop(sys.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a command's words go."""

    as_json: bool
    quiet: bool
    colour: bool

    def note(self, text: str) -> None:
        """Progress, warnings, prompts."""
        if not self.quiet:
            complain(text)

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """A step's outcome; satisfies the core's Progress."""
        width = len(str(of))
        self.note(f"[{number:>{width}}/{of}] {text}: {outcome}")

    def result(self, document: Mapping[str, object]) -> None:
        """A JSON result."""
        print(json.dumps(document, indent=2), flush=True)  # noqa: T201  this is the one place that prints

    def text(self, text: str) -> None:
        """A text result for people."""
        self.verbatim(visible(text))

    def verbatim(self, text: str) -> None:
        """A text result that programs read, as it is."""
        print(text, flush=True)  # noqa: T201  this is the one place that prints

    def line(self, text: str) -> None:
        """One line of a result for people, coloured by its first word."""
        self.console().print(self.styled(visible(text)))

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
        """A table result: whole in a pipe, folded in a narrow terminal."""
        from rich.table import Table  # noqa: PLC0415  costs start-up time that most commands need not pay

        console = self.console()
        grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", title_justify="left")
        for header in headers:
            grid.add_column(header, overflow="fold")
        for row in rows:
            grid.add_row(*(self.styled(visible_cell(cell)) for cell in row))
        if title:
            console.print(self.styled(visible(title)), highlight=False)
        console.print(grid)

    def console(self) -> "Console":
        """The rich console on stdout."""
        from rich.console import Console  # noqa: PLC0415  likewise

        on_terminal = sys.stdout.isatty()
        return Console(
            no_color=not self.colour,
            highlight=False,
            soft_wrap=not on_terminal,
            width=None if on_terminal else _PIPE_WIDTH,
        )

    def styled(self, cell: str) -> str:
        """The cell, coloured where its first word says how things stand."""
        from rich.markup import escape  # noqa: PLC0415  likewise

        style = STYLES.get(cell.split(" ", 1)[0])
        return f"[{style}]{escape(cell)}[/]" if style else escape(cell)
