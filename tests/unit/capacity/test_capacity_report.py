"""Pages that need nothing else."""

import re
from collections.abc import Mapping

import pytest

from rlctl.capacity.plan import Mix, Reserve, plan
from rlctl.capacity.published import check_claims
from rlctl.capacity.report import model_page, plan_page
from rlctl.reports.drawing import INK, LINE, SERIES, drawing
from rlctl.reports.page import Chapter, Table, page
from tests.unit.capacity.asked import STATES, ask

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def check_stands_alone(text: str) -> None:
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= NAMESPACES
    assert not re.search(r"<(script|img|iframe)\b|@import|url\((?!#)", text)
    assert re.findall(r"<link\b[^>]*>", text) == ['<link rel="icon" href="data:,">']
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def pages() -> Mapping[str, str]:
    base = ask(algorithm="gcra")
    claims = check_claims(base, STATES, users=1000, limit=100, concurrent=50, requests_per_s=10)
    mix = Mix(requests=(ask(algorithm="sliding_counter", users=100_000),), states=STATES)
    return {
        "model": model_page(claims, base, STATES),
        "plan": plan_page(plan(mix, Reserve(), shards=3, ram=2**30)),
        "plan of one shard": plan_page(plan(mix, Reserve(), shards=1, ram=None)),
    }


@pytest.fixture(scope="module")
def made() -> Mapping[str, str]:
    return pages()


@pytest.mark.parametrize("name", ["model", "plan", "plan of one shard"])
def test_a_page_stands_alone_and_takes_its_colours_from_its_style(made: Mapping[str, str], name: str) -> None:
    check_stands_alone(made[name])
    assert made[name].count("<svg") >= 2
    assert not any(colour in made[name] for colour in (INK, LINE, *SERIES))
    assert "var(--series-1)" in made[name]
    ids = re.findall(r'\bid="([^"]+)"', made[name])
    assert len(ids) == len(set(ids))


def test_the_same_figures_make_the_same_page(made: Mapping[str, str]) -> None:
    assert pages() == made


def test_the_cliff_is_in_the_picture(made: Mapping[str, str]) -> None:
    assert "listpack cap 128" in made["model"]


def test_text_from_outside_is_escaped() -> None:
    found = page("<h6>", "<b>", "a & b", [Chapter(title="<i>", text="x", table=Table(head=("<u>",), rows=[("<s>",)]))])
    assert not re.search(r"<(h6|b|i|u|s)>", found)
    check_stands_alone(found)


@pytest.mark.filterwarnings("error")
def test_a_label_is_drawn_as_the_text_it_is() -> None:
    odd = (r"$\frac{$", "\u65e5\u672c")
    with drawing("odd", "odd names") as plot:
        plot.axes.bar([0, 1], [1, 2])
        plot.axes.set_xticks([0, 1], odd)
        svg = plot.svg()
    assert all(name in svg for name in odd)
