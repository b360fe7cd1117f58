"""What a transcript keeps of a step."""

from pathlib import Path

from rlctl.runbooks.page.load import read_page
from rlctl.runbooks.run import StepOutcome, StepRun
from rlctl.runbooks.transcript import Transcript
from rlctl.state.home import Home
from rlctl.system.clock import SystemClock
from tests.unit.runbooks.test_reading_pages import BODY, FRONT, NAME

PAGE = read_page(FRONT + BODY, NAME)


def begin(folder: Path) -> Transcript:
    return Transcript.begin(Home(root=folder), SystemClock(), PAGE, "limiter", "ada")


def printed(text: str) -> StepRun:
    return StepRun(step=PAGE.steps[0], command="rlctl status", outcome=StepOutcome.DONE, exit_code=0, output=text)


def test_a_long_output_is_cut_and_says_so(tmp_path: Path) -> None:
    transcript = begin(tmp_path)
    transcript.step(printed("x" * 20_000 + "\n"))
    assert "left out" not in transcript.path.read_text(encoding="utf-8")
    transcript.step(printed("x" * 30_000))
    text = transcript.path.read_text(encoding="utf-8")
    assert text.endswith("10000 more characters are left out.\n")
    assert len(text) < 50_000
