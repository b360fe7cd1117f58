"""One HTML file that needs nothing else: no network, no other files, light and dark. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --grid: #d1d9e0; --paper: #ffffff;
  --series-1: #2a6fdb; --series-2: #d9591c; --series-3: #12805c; --series-4: #8a3ffc; --series-5: #b28600;
  --series-6: #c2255c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa4af; --grid: #3d444d; --paper: #0d1117;
  --series-1: #6ea8fe; --series-2: #ff9a5c; --series-3: #4ac694; --series-4: #b892ff; --series-5: #e3b341;
  --series-6: #ff7aa8; } }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p { color: var(--soft); max-width: 46rem; }
figure { margin: 1rem 0; overflow-x: auto; } svg { max-width: 100%; height: auto; }
.table { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.9rem 0.3rem 0; text-align: left; border-bottom: 1px solid var(--grid); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells; columns from `numbers_from` on are figures."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers_from: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A heading, what to see there, a plot as SVG, and the figures behind it."""

    title: str
    text: str
    svg: str = ""
    table: Table | None = None


def page(title: str, text: str, chapters: Sequence[Chapter]) -> str:
    """The whole file."""
    body = "".join(_chapter(chapter) for chapter in chapters)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n<p>{escape(text)}</p>\n{body}</body>\n</html>\n"
    )


def _chapter(chapter: Chapter) -> str:
    figure = f"<figure>\n{chapter.svg}</figure>\n" if chapter.svg else ""
    table = _table(chapter.table) if chapter.table else ""
    return f"<h2>{escape(chapter.title)}</h2>\n<p>{escape(chapter.text)}</p>\n{figure}{table}"


def _table(table: Table) -> str:
    head = _cells(table.head, "th", table.numbers_from)
    rows = "".join(f"<tr>{_cells(row, 'td', table.numbers_from)}</tr>\n" for row in table.rows)
    return f'<div class="table"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n'


def _cells(cells: Sequence[str], kind: str, numbers_from: int) -> str:
    marks = ("" if column < numbers_from else ' class="number"' for column in range(len(cells)))
    return "".join(f"<{kind}{mark}>{escape(cell)}</{kind}>" for cell, mark in zip(cells, marks, strict=True))
