"""The transcript of a run: each command with its time, outcome and output, for the review afterwards."""

from dataclasses import dataclass
from pathlib import Path

from rlctl.runbooks.page.model import Runbook
from rlctl.runbooks.run import RunResult, StepOutcome, StepRun
from rlctl.state.home import Home
from rlctl.system.clock import Clock
from rlctl.system.files import append_line, make_private_folder

_MOST_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A Markdown file that grows with each step, so that a killed run leaves a transcript too."""

    path: Path
    clock: Clock

    @classmethod
    def begin(cls, home: Home, clock: Clock, page: Runbook, fleet: str, operator: str) -> "Transcript":
        """Start a transcript in the state folder."""
        home.open_for_writing()
        make_private_folder(home.transcripts)
        now = clock.now()
        path = home.transcripts / f"{now:%Y%m%d-%H%M%S-%f}-{page.name}.md"
        transcript = cls(path=path, clock=clock)
        began = now.isoformat(timespec="seconds")
        transcript._write(f"# {page.id} {page.title}\n\nFleet {fleet}, begun {began} by {operator}.\n")
        return transcript

    def step(self, result: StepRun) -> None:
        """Add a step and its output."""
        now = self.clock.now().isoformat(timespec="seconds")
        lines = [f"## {now} {result.step.section}: {result.step.id}: {result.outcome}", "", f"    {result.command}", ""]
        if result.why:
            lines += [f"{result.why}", ""]
        if result.outcome is not StepOutcome.SKIPPED:
            lines += [f"Exit {result.exit_code} after {result.elapsed_s:.1f} s.", ""]
        for text in (result.output, result.errors):
            lines += _quoted(text)
        self._write("\n" + "\n".join(lines).rstrip() + "\n")

    def declined(self, command: str) -> None:
        """Add a step that the operator declined."""
        self._write(f"\nDeclined: `{command}`\n")

    def interrupted(self, message: str) -> None:
        """Add that the operator stopped the run."""
        self._write(f"\nInterrupted: {message}.\n")

    def end(self, run: RunResult) -> None:
        """Add how the run ended."""
        failed = run.failed
        if failed is not None:
            self._write(f"\nEnded at {failed.step.id}: {failed.why}.\n")
        elif run.recovered_s is not None:
            self._write(f"\nRecovered: every check passed within {run.recovered_s:.1f} s of the first step.\n")

    def _write(self, text: str) -> None:
        append_line(self.path, text.rstrip("\n"))


def _quoted(text: str) -> list[str]:
    kept = text.strip()
    lines = [*(f"    {line}" for line in kept[:_MOST_CHARACTERS].splitlines()), ""] if kept else []
    more = len(kept) - _MOST_CHARACTERS
    return [*lines, f"{more} more characters are left out.", ""] if more > 0 else lines
