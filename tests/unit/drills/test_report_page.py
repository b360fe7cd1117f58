"""The page of a run: whole, self-contained, the same every time, and no text of others is markup in it."""

import re
import time
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest

from rlctl.drills.report import write_overview, write_report
from rlctl.drills.report.html import overview, page
from rlctl.drills.report.overview import groups
from rlctl.lab.run_folder import RunFolder
from tests.unit.drill_documents import NAMES, changed, killed, recorded, sweep

MOST_BYTES = 3_000_000
VOID = {"meta", "link", "br"}
HOSTILE = "<script>alert('x')</script>\"'&$\\frac{1}{$"


class Page(HTMLParser):
    """What a browser would make of a page, as far as these tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._note(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "title"}:
            self.words += f"{data} "

    def _note(self, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for key, value in attrs if key in {"src", "href", "xlink:href", "action", "srcset"}]
        self.ids += [value or "" for key, value in attrs if key == "id"]


@cache
def text_of(name: str) -> str:
    return page(*recorded(name))


def rendered(name: str) -> Page:
    return Page(text_of(name))


def written(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_page_is_one_file(name: str) -> None:
    text = text_of(name)
    seen = Page(text)
    assert len(text.encode()) < MOST_BYTES
    assert seen.open == []
    assert "script" not in seen.tags
    assert [link for link in seen.links if not link.startswith(("#", "data:"))] == []
    assert "@import" not in text
    assert re.findall(r"url\((?!#)", text) == []
    assert "://" not in text.replace("http://www.w3.org/", "")


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_unique_and_references_lead_somewhere(name: str) -> None:
    text = text_of(name)
    seen = Page(text)
    assert len(seen.ids) == len(set(seen.ids))
    wanted = {link[1:] for link in seen.links if link.startswith("#")} | set(re.findall(r"url\(#([^)]+)\)", text))
    assert wanted <= set(seen.ids)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_the_run_is_there(name: str) -> None:
    run, _ = recorded(name)
    words = written(rendered(name).words)
    counts = [*run["ops"].values(), run["survived"], run["lost"], run["recovered"], run["doomed"]["count"]]
    counts += [run["admission"][key] for key in ("limit", "admitted", "over", "under", "potential")]
    counts += [client[key] for client in run["clients"] for key in ("acked", "lost", "hops")]
    counts += [count for client in run["clients"] for count in client["refusals"].values()]
    spans = [*run["times_ms"].values(), *(client["longest_gap_ms"] for client in run["clients"])]
    texts = [run["title"], run["id"], run["claim"], run["rerun"], run["fault"]["method"], *run["reasons"]]
    texts += [text for check in run["invariants"] for text in (check["code"], check["text"], check["evidence"])]
    texts += [run["configuration"]["server"], "failover in 10 to 30 s", "recovery below 30 s", "at most 5 % of counts"]
    for text in [*(f"{count:,}" for count in counts), *(f"{ms:,.1f} ms" for ms in spans if ms is not None), *texts]:
        assert written(text) in words


def test_verdict_comes_first() -> None:
    words = rendered("write-loss-cluster").words
    order = ["✓ pass", "Expected and measured", "Key figures", "Timeline", "Latency", "Accounting", "Lost writes"]
    places = [words.index(title) for title in order]
    assert places == sorted(places)


def test_none_lost_is_told_with_its_bound() -> None:
    run, _ = recorded("control-cluster")
    assert f"95 % upper bound 3/{run['ops']['acked']:,} = 0.00699 %" in written(rendered("control-cluster").words)


def test_none_lost_of_a_run_that_proves_nothing_has_no_bound() -> None:
    run, series = recorded("control-cluster")
    words = Page(page(changed(run, verdict="inconclusive"), series)).words
    assert "upper bound" not in words
    assert "nothing is proven by it" in words


def test_books_that_do_not_close_are_shown_as_such() -> None:
    run, series = recorded("write-loss-cluster")
    words = Page(page(changed(run, ops__refused=run["ops"]["refused"] - 1, lost=run["lost"] + 1), series)).words
    assert "✗ the four add up to 66,459" in words
    assert "✗ not the sum of the two" in words


def test_a_missed_expectation_is_marked() -> None:
    run, series = recorded("write-loss-cluster")
    run["expected"][0]["ok"] = False
    words = Page(page(changed(run, verdict="fail", reasons=["lost 0, expected at least 1"]), series)).words
    assert "✗ fail" in words
    assert "1 of 5 expectations are missed" in written(words)
    assert "✗ missed" in words


def test_wait_has_two_ledgers() -> None:
    run, series = recorded("write-loss-cluster")
    words = Page(page(changed(run, configuration__wait_replicas=1, lost_local=4321), series)).words
    assert "regardless of WAIT" in words
    assert "4,321" in words


@pytest.mark.parametrize("live", [False, True], ids=["twin", "live"])
def test_notes_say_where_it_was_measured(*, live: bool) -> None:
    run, series = recorded("split-brain-sentinel")
    words = Page(page(changed(run, live=live), series)).words
    assert ("a throw-away fleet" in words) is not live
    assert ("on the deployed fleet" in words) is live
    assert "publish-period 300 ms" in words


def test_a_killed_run_has_a_page() -> None:
    words = Page(page(*killed())).words
    assert "? inconclusive" in words
    assert "This run proves nothing about Redis" in written(words)
    assert "the server did not start" in words
    assert "not measured" in words
    assert "ended before the load began" in words


def test_other_peoples_text_is_no_markup() -> None:
    run, series = recorded("write-loss-cluster")
    run = changed(run, title=HOSTILE, claim=HOSTILE, reasons=[HOSTILE], rerun=HOSTILE, configuration__server=HOSTILE)
    run["clients"][0]["refusals"] = {HOSTILE: 1}
    run["clients"][0]["name"] = HOSTILE
    run["invariants"][0]["evidence"] = HOSTILE
    series = changed(series, rates={HOSTILE: series["rates"]["majority"]}, nodes={HOSTILE: series["nodes"]["node-0"]})
    series["latency"] = {HOSTILE: series["latency"]["majority"]}
    series["events"][1]["text"] = HOSTILE
    seen = Page(page(run, series))
    assert "script" not in seen.tags
    assert seen.open == []
    assert seen.words.count(HOSTILE) >= 8


@pytest.mark.parametrize("name", ["write-loss-cluster", "split-brain-sentinel"])
def test_page_is_the_same_every_time(name: str) -> None:
    assert page(*recorded(name)) == text_of(name)


def test_a_second_page_is_quick() -> None:
    documents = recorded("split-brain-sentinel")
    page(*documents)
    started_s = time.process_time()
    page(*documents)
    assert time.process_time() - started_s < 1.5


def test_report_is_private_and_in_its_folder(tmp_path: Any) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.open()
    path = write_report(folder, *recorded("control-cluster"))
    assert path == folder.report
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_overview_shows_each_price_against_the_first() -> None:
    runs = sweep()
    seen = Page(overview(runs, {}))
    words = written(seen.words)
    assert "5 drills: 4 pass, 0 fail, 1 inconclusive" in words
    for run in runs:
        assert run["variant"] in words
        assert f"{run['lost']:,}" in words
    assert f"+{runs[-1]['lost'] - runs[0]['lost']:,}" in words
    assert seen.open == []
    assert {link for link in seen.links if not link.startswith("#slope-cluster-")} == {"data:,"}


def test_overview_fits_loss_against_lag_without_what_proves_nothing() -> None:
    [group] = groups(sweep())
    assert group.lag_fit is not None
    assert len(group.lag_fit.points) == 4
    assert group.lag_fit.lost_per_s == pytest.approx(15_115, abs=1)
    assert group.lag_fit.line.fit > 0.99


def test_overview_names_the_settings_that_differ() -> None:
    base = sweep()[0]
    runs = [base, changed(base, id="b", configuration__min_replicas=1, metrics__lost=None)]
    [group] = groups(runs)
    assert [row.knobs for row in group.rows] == [{"min_replicas": "0"}, {"min_replicas": "1"}]
    assert group.rows[1].change["lost"] is None
    assert group.lag_fit is None


def test_overview_links_to_the_pages_there_are(tmp_path: Any) -> None:
    runs = [changed(sweep()[0], id="a", report=str(tmp_path / "drills" / "a" / "report.html")), sweep()[1]]
    path = write_overview(tmp_path / "overview.html", runs)
    assert Page(path.read_text(encoding="utf-8")).links == ["data:,", "drills/a/report.html"]
