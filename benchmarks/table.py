"""Text tables in Markdown."""

from collections.abc import Sequence


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with padded columns; all but the first two are right-aligned."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    rule = [("-" * width if column < 2 else "-" * (width - 1) + ":") for column, width in enumerate(widths)]
    return "\n".join(line(row, widths) for row in (header, rule, *rows))


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"
