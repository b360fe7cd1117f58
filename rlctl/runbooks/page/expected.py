"""The expected result of a step, in words. Pure."""

from collections.abc import Iterator, Mapping

from rlctl.errors import Exit
from rlctl.files.units import format_duration
from rlctl.runbooks.page.model import Step

_MEANING: Mapping[int, str] = {
    Exit.OK: "well, or done",
    Exit.DENIED: "login refused",
    Exit.NOT_FOUND: "not found",
    Exit.UNREACHABLE: "no node answers",
    Exit.GUARD: "refused, nothing was changed",
    Exit.CHANGES: "there is something to do",
    Exit.DEGRADED: "degraded",
    Exit.CRITICAL: "critical",
    Exit.PARTIAL: "some did not answer",
    Exit.CHECK_FAILED: "a check failed",
}


def expected_answer(step: Step) -> str:
    """One line: the exit code, output and time that the page expects of a step, and its condition."""
    return "; ".join(_parts(step))


def _parts(step: Step) -> Iterator[str]:
    yield f"As expected: exit {' or '.join(map(_exit, sorted(step.exits)))}"
    if step.expect is not None:
        yield f"its JSON satisfies `{step.expect}`"
    yield f"within {format_duration(step.timeout_ms)}"
    if step.when is not None:
        yield f"only if `{step.when.step}` printed `{step.when.query}`"


def _exit(code: int) -> str:
    meaning = _MEANING.get(code)
    return f"{code} ({meaning})" if meaning else str(code)
