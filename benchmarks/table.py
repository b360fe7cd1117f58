"""Plain tables that are Markdown too."""

from collections.abc import Sequence


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; all but the first two are figures and stand to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    rule = [("-" * width if column < 2 else "-" * (width - 1) + ":") for column, width in enumerate(widths)]
    return "\n".join(line(row, widths) for row in (header, rule, *rows))


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One row."""
    padded = [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"
