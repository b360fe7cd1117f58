"""Writes results to stdout and everything else to stderr. Colours appear on terminals only."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlctl.cli.streams import drop
from rlctl.cli.visible import visible, visible_cell

if TYPE_CHECKING:
    from rich.console import Console

# A pipe has no width, so lines are neither cut nor wrapped.
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


def write_stderr(text: str) -> None:
    """Write a line to stderr. If that fails, drop this line and all later lines."""
    try:
        print(visible(text), file=sys.stderr, flush=True)  # noqa: T201  the one place that writes to stderr
    except OSError:
        drop(sys.stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The output of one command, in the format that the options chose."""

    as_json: bool
    quiet: bool
    colour: bool

    def note(self, text: str) -> None:
        """Print progress or a warning; -q hides it."""
        if not self.quiet:
            write_stderr(text)

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """Print the outcome of a step. Implements Progress."""
        width = len(str(of))
        self.note(f"[{number:>{width}}/{of}] {text}: {outcome}")

    def result(self, document: Mapping[str, object]) -> None:
        """Print a JSON result."""
        print(json.dumps(document, indent=2), flush=True)  # noqa: T201  this is the one place that prints

    def text(self, text: str) -> None:
        """Print a text result, with control characters escaped."""
        self.verbatim(visible(text))

    def verbatim(self, text: str) -> None:
        """Print a text result for programs, unchanged."""
        print(text, flush=True)  # noqa: T201  this is the one place that prints

    def line(self, text: str) -> None:
        """Print one line of a result, coloured by its first word."""
        self.console().print(self.styled(visible(text)))

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
        """Print a table. Long cells wrap on a terminal, but not in a pipe."""
        from rich.table import Table  # noqa: PLC0415  slow to import, and only tables need it

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
        from rich.console import Console  # noqa: PLC0415  likewise

        on_terminal = sys.stdout.isatty()
        return Console(
            no_color=not self.colour,
            highlight=False,
            soft_wrap=not on_terminal,
            width=None if on_terminal else _PIPE_WIDTH,
        )

    def styled(self, cell: str) -> str:
        """Return the cell with a colour if its first word is a state such as `healthy`."""
        from rich.markup import escape  # noqa: PLC0415  likewise

        style = STYLES.get(cell.split(" ", 1)[0])
        return f"[{style}]{escape(cell)}[/]" if style else escape(cell)
