"""The page and the plots that all reports share."""

import re

import pytest

from rlctl.reports.drawing import CARD, INK, LINE, SERIES, css_colour, drawing, size_words
from rlctl.reports.page import Chapter, Table, page

HOSTILE = "<script>alert('x')</script>\"&"


def test_text_from_outside_is_escaped() -> None:
    table = Table(head=(HOSTILE,), rows=[(HOSTILE,)])
    found = page(HOSTILE, HOSTILE, HOSTILE, [Chapter(title=HOSTILE, text=HOSTILE, table=table)])
    assert "<script" not in found
    assert found.count("&lt;script&gt;") == 8


def test_a_page_loads_nothing_and_follows_the_scheme_of_the_reader() -> None:
    found = page("rlctl", "title", "text", [Chapter(title="chapter", text="text")])
    assert "default-src 'none'" in found
    assert re.findall(r"<link\b[^>]*>", found) == ['<link rel="icon" href="data:,">']
    assert "prefers-color-scheme: dark" in found
    assert "<figure>" not in found
    assert "<table" not in found


def test_columns_of_numbers_are_marked() -> None:
    table = Table(head=("a", "b", "c"), rows=[("1", "2", "3")], numbers_from=2)
    found = page("", "", "", [Chapter(title="", text="", table=table)])
    assert '<th>a</th><th>b</th><th class="num">c</th>' in found
    assert '<td>1</td><td>2</td><td class="num">3</td>' in found


def svg(name: str, description: str = "a plot") -> str:
    with drawing(name, description) as plot:
        plot.axes.plot([0, 1], [1, 2], color=SERIES[0], marker="o")
        plot.axes.annotate("here", (0, 1), color=INK)
        plot.axes.axhline(1, color=css_colour("lost"))
        return plot.svg()


def test_a_plot_takes_its_colours_from_the_page() -> None:
    drawn = svg("plot")
    assert all(f"var(--{name})" in drawn for name in ("ink", "line", "series-1", "lost"))
    assert not any(colour in drawn for colour in (INK, LINE, CARD, css_colour("lost"), *SERIES))


def test_colours_differ_and_stay() -> None:
    colours = [INK, LINE, CARD, *SERIES, css_colour("lost")]
    assert len(set(colours)) == len(colours)
    assert css_colour("ink") == INK


def test_ids_of_two_plots_differ_and_references_lead_to_them() -> None:
    both = svg("first") + svg("second")
    ids = re.findall(r'\bid="([^"]+)"', both)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', both)) > set()
    for reference in re.findall(r'(?:href="|url\()#([^")]+)', both):
        assert reference in ids


def test_a_plot_is_the_same_every_time_and_describes_itself() -> None:
    assert svg("plot") == svg("plot")
    assert 'aria-label="&lt;b&gt; &quot;here&quot;"' in svg("plot", '<b> "here"')


def test_panels_lie_below_each_other() -> None:
    with drawing("panels", "two panels", height_in=4.0) as plot:
        upper, lower = plot.panel(0.5, 1.0, "upper"), plot.panel(2.0, 1.5)
        assert upper.get_position().y0 > lower.get_position().y1
        assert upper.get_position().width == lower.get_position().width
        assert "upper" in plot.svg()


@pytest.mark.filterwarnings("error")
def test_a_label_is_drawn_as_the_text_it_is() -> None:
    odd = (r"$\frac{$", "\u65e5\u672c")
    with drawing("odd", "odd names") as plot:
        plot.axes.bar([0, 1], [1, 2])
        plot.axes.set_xticks([0, 1], odd)
        drawn = plot.svg()
    assert all(name in drawn for name in odd)


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0 B"), (999, "999 B"), (1_500_000_000, "1.5 GB"), (-2_000, "-2 KB"), (1e21, "1e+06 PB")]
)
def test_sizes_in_words(value: float, words: str) -> None:
    assert size_words(value) == words
