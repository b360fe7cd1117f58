"""Reports as people see them: nothing is fetched, nothing complains, nothing sticks out, everything can be read."""

from pathlib import Path
from typing import Any

import pytest

from rlctl.drills.report.html import overview, page
from tests.browser.chromium import Chromium
from tests.unit.capacity.test_capacity_report import pages
from tests.unit.drill_documents import NAMES, killed, recorded, sweep

PAGES = {name: (lambda name=name: page(*recorded(name))) for name in NAMES}
PAGES |= {f"capacity {name}": (lambda name=name: pages()[name]) for name in ("model", "plan", "measure")}
PAGES |= {"killed": lambda: page(*killed()), "overview": lambda: overview(sweep(), {})}
# How much lighter one of two colours is, by the formula of WCAG 2; 4.5 is what it asks of text.
CONTRAST = """
(() => {
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const numbers = text => text.match(/[0-9.]+/g).map(Number);
  const ground = e => { for (; e; e = e.parentElement) {
    const c = numbers(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } };
  const low = [];
  for (const e of document.querySelectorAll("main *:not(svg *)")) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(numbers(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(e.textContent.trim().slice(0, 40) + " " + ratio.toFixed(2));
  }
  return low;
})()
"""
COVERED = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const texts = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    const whole = svg.getBoundingClientRect();
    texts.forEach(([a, p], i) => {
      if (p.left < whole.left - 1 || p.right > whole.right + 1) found.push(a + " sticks out");
      texts.slice(i + 1).forEach(([b, q]) => {
        const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (wide > 1 && high > 4) found.push(a + " covers " + b);
      });
    });
  }
  return found;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", PAGES)
def test_page_can_be_read(browser: Chromium, tmp_path: Path, name: str, width: int, scheme: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(PAGES[name](), encoding="utf-8")
    browser.show(path.as_uri(), width=width, scheme=scheme)
    complaints = browser.heard("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    assert complaints == []
    assert [url for url in requested(browser) if not url.startswith("data:")] == [path.as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(CONTRAST) == []
    assert browser.evaluate(COVERED) == []
    picture = tmp_path / f"{name}-{width}-{scheme}.png"
    browser.picture(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def requested(browser: Chromium) -> list[str]:
    sent: list[dict[str, Any]] = browser.heard("Network.requestWillBeSent")
    return [one["request"]["url"] for one in sent]


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)], ids=["light", "dark"])
def test_page_follows_the_readers_choice(browser: Chromium, tmp_path: Path, scheme: str, *, is_dark: bool) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(*recorded("write-loss-cluster")), encoding="utf-8")
    browser.show(path.as_uri(), width=1280, scheme=scheme)
    ground, ink, plot = (
        browser.evaluate(f"getComputedStyle(document.querySelector('{part}')).{style}.match(/[0-9]+/g).map(Number)")
        for part, style in (("body", "backgroundColor"), ("h1", "color"), ("svg text", "fill"))
    )
    assert (sum(ground) < sum(ink)) is is_dark
    assert plot == ink


def test_a_bad_page_would_be_noticed(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    words = "<svg width=300><text y=20>here</text><text y=22 x=5>there</text><text y=60 x=290>outside</text></svg>"
    path.write_text(
        f"<body style='background:#fff'><main><img src='missing.png'><p style='color:#999'>faint</p>"
        f"<pre style='width:900px'>wide</pre>{words}</main><script>console.log(1)</script>"
    )
    browser.show(path.as_uri(), width=400, scheme="light")
    assert browser.heard("Log.entryAdded")
    assert browser.heard("Runtime.consoleAPICalled")
    assert len(requested(browser)) == 2
    assert browser.evaluate("document.documentElement.scrollWidth") > 400
    assert browser.evaluate(CONTRAST) == ["faint 2.85"]
    assert browser.evaluate(COVERED) == ["here covers there", "outside sticks out"]
