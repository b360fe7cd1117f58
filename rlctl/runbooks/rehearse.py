"""Rehearses pages: carries out each page after each of its faults, then again with one changing step omitted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from rlctl.errors import Refused, Unreachable
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.lab.launch import WorkerProgram, recorded_failure
from rlctl.lab.run_folder import REQUEST, RESULT
from rlctl.lab.throw_away import clean_up_throw_away, note_cleaned_up, throw_away
from rlctl.runbooks.catalog import page_reference
from rlctl.runbooks.page.model import Rehearsal, Risk, Runbook, Step
from rlctl.runbooks.rehearsal import REST, RehearsalRequest, RehearsalResult
from rlctl.state.home import Home
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import why_unavailable
from rlctl.topology.model import Kind

WORKER = "rlctl.runbooks.rehearse_worker"
# If a step is omitted, each other step gets this many times its usual time, and at least LEAST_PATIENCE_S.
PATIENCE_FACTOR = 3.0
LEAST_PATIENCE_S = 6.0
REST_PATIENCE_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedPage:
    """A page carried out after one fault, on one kind of fleet."""

    page: Runbook
    kind: Kind
    index: int
    result: RehearsalResult

    @property
    def rehearsal(self) -> Rehearsal:
        return self.page.rehearsals[self.index]

    def took(self, step: Step) -> bool:
        """Whether the step was carried out, not skipped."""
        return any(one["id"] == step.id and one["outcome"] == "done" for one in self.result.steps)

    def to_json(self) -> dict[str, object]:
        """The JSON that `runbook test -o json` prints."""
        recovered_s = self.result.recovered_s
        return {
            "runbook": self.page.id,
            "kind": self.kind,
            "fault": self.rehearsal.fault,
            "verdict": "pass" if self.result.is_green else "fail",
            "reason": self.result.reason,
            "recovered_s": None if recovered_s is None else round(recovered_s, 1),
            "steps": list(self.result.steps),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """A step that was omitted, or never carried out. `noticed` says what went wrong, None if nothing did."""

    page: Runbook
    kind: Kind
    step: Step
    noticed: str | None

    def to_json(self) -> dict[str, object]:
        """The JSON that `runbook test -o json` prints."""
        return {"runbook": self.page.id, "kind": self.kind, "step": self.step.id, "noticed": self.noticed}


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalReport:
    """All rehearsals, and the effects of omitting steps.

    `unused` steps were never carried out. `repeated` lists the failures that made rlctl repeat a rehearsal.
    """

    rehearsals: tuple[RehearsedPage, ...]
    omissions: tuple[Omission, ...]
    unused: tuple[Omission, ...]
    repeated: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every page leads to a healthy fleet, and has no needless step."""
        return all(one.result.is_green for one in self.rehearsals) and not self.unnoticed and not self.unused

    @property
    def unnoticed(self) -> tuple[Omission, ...]:
        """Steps whose omission made no difference."""
        return tuple(one for one in self.omissions if one.noticed is None)


class RehearsalNotMade(Exception):
    """The rehearsal could not be made, and its worker recorded why. A worker that crashes records no reason."""


@dataclass(frozen=True, kw_only=True)
class Rehearser:
    """Rehearses pages, several at a time, each in its own namespaces."""

    home: Home
    jobs: int
    progress: Progress
    stop: StopFlag
    is_detailed: bool = False
    without_omissions: bool = False
    _repeated: list[str] = field(default_factory=list)

    def rehearse_all(self, pages: Sequence[Runbook], kinds: Sequence[Kind]) -> RehearsalReport:
        """Rehearse each page on those of `kinds` that it applies to. Refused if namespaces are not available."""
        reason = why_unavailable(ProcessRunner())
        if reason is not None:
            raise Refused(
                f"rehearsals need namespaces, which are not available on this machine: {reason}",
                hint="run the command on a machine that allows unprivileged namespaces",
            )
        note_cleaned_up(clean_up_throw_away(self.home, self.progress), self.progress)
        wanted = [(page, kind, index) for page in pages for kind in kinds for index in _rehearsals(page, kind)]
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            rehearsals = tuple(pool.map(lambda one: self._follow(*one), wanted))
            to_omit = [] if self.without_omissions else list(_to_omit(rehearsals))
            omissions = tuple(pool.map(lambda one: self._leave_out(*one), to_omit))
        self.stop.check()
        return RehearsalReport(
            rehearsals=rehearsals,
            omissions=omissions,
            unused=tuple(_unused(rehearsals)),
            repeated=tuple(self._repeated),
        )

    def _follow(self, page: Runbook, kind: Kind, index: int) -> RehearsedPage:
        result = self._try(RehearsalRequest(page=page_reference(page), kind=kind, rehearsal=index))
        rehearsed = RehearsedPage(page=page, kind=kind, index=index, result=result)
        outcome = f"green after {result.recovered_s:.1f} s" if result.is_green and result.recovered_s else result.reason
        self.progress.note(f"{page.id} {kind} {rehearsed.rehearsal.fault}: {outcome}")
        return rehearsed

    def _leave_out(self, step: Step, rehearsals: Sequence[RehearsedPage]) -> Omission:
        noticed = effect_of_omission(step, (self._without(step, rehearsed) for rehearsed in rehearsals))
        page, kind = rehearsals[0].page, rehearsals[0].kind
        outcome = f"noticed: {noticed}" if noticed else "makes no difference"
        self.progress.note(f"{page.id} {kind} without {step.id}: {outcome}")
        return Omission(page=page, kind=kind, step=step, noticed=noticed)

    def _without(self, step: Step, rehearsed: RehearsedPage) -> RehearsalResult:
        request = RehearsalRequest(
            page=page_reference(rehearsed.page),
            kind=rehearsed.kind,
            rehearsal=rehearsed.index,
            omitted=step.id,
            patience_s=patience(rehearsed.result.steps),
        )
        return self._try(request)

    def _try(self, request: RehearsalRequest) -> RehearsalResult:
        """Rehearse; repeat once if the rehearsal could not be made, because a busy machine may be the cause."""
        try:
            return self._try_once(request)
        except RehearsalNotMade as failure:
            self._repeated.append(str(failure))
            self.progress.note(f"{failure}; trying once more")
        try:
            return self._try_once(request)
        except RehearsalNotMade as failure:
            raise Unreachable(str(failure), hint="run the command with -v") from failure

    def _try_once(self, request: RehearsalRequest) -> RehearsalResult:
        self.stop.check()
        with throw_away(self.home, "runbook") as folder:
            folder.write(REQUEST, request.to_json())
            environment = {"RLCTL_HOME": str(folder.twin / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
            # The worker does not own the folder: this process removes it, and the worker cannot outlive this process.
            program = WorkerProgram(module=WORKER, in_sandbox=True, owns_folder=False, environment=environment)
            ended = program.run(folder, lambda text: self._show(request, text), self.stop)
            if self.stop.is_set:
                raise self.stop.kind(
                    "stopped; the throw-away fleets are gone", hint="start again with the same command"
                )
            result, failure = folder.read(RESULT), recorded_failure(folder)
        if result is not None:
            return RehearsalResult.from_json(result)
        what = f"a rehearsal of {request.page} could not be made"
        if failure is not None:
            raise RehearsalNotMade(f"{what}: {failure.message}")
        raise Unreachable(f"{what}: {ended.last_errors or f'exit {ended.code}'}", hint="run the command with -v")

    def _show(self, request: RehearsalRequest, text: str) -> None:
        if self.is_detailed:
            self.progress.note(f"  {request.page} {request.kind}: {text}")


def effect_of_omission(step: Step, results: Iterable[RehearsalResult]) -> str | None:
    """What went wrong without a step; None if the page does not need the step.

    `results` are the rehearsals without the step, one for each fault. The page needs the step if one of these
    rehearsals failed. A step that may lose data is needed only if all of them failed. The function reads `results` only
    until the answer is known.
    """
    reason = None
    for result in results:
        reason = None if result.is_green else result.reason
        is_settled = result.is_green if step.risk is Risk.DANGER else not result.is_green
        if is_settled:
            break
    return reason


def patience(steps: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """Time limits for steps while another step is omitted, so that a step that cannot succeed ends early."""
    needed = {str(one["id"]): float(str(one["elapsed_s"])) for one in steps}
    return {
        **{step: max(LEAST_PATIENCE_S, PATIENCE_FACTOR * took) for step, took in needed.items()},
        REST: REST_PATIENCE_S,
    }


def _rehearsals(page: Runbook, kind: Kind) -> list[int]:
    return [index for index, rehearsal in enumerate(page.rehearsals) if kind in rehearsal.kinds]


def _groups(rehearsals: Sequence[RehearsedPage]) -> Iterator[list[RehearsedPage]]:
    """Group the rehearsals by page and kind of fleet."""
    keys = dict.fromkeys((one.page.source, one.kind) for one in rehearsals)
    for key in keys:
        yield [one for one in rehearsals if (one.page.source, one.kind) == key]


def _to_omit(rehearsals: Sequence[RehearsedPage]) -> Iterator[tuple[Step, list[RehearsedPage]]]:
    """Each step that changes something, with the rehearsals that carried it out; skips a group with a failure."""
    for group in _groups(rehearsals):
        if all(one.result.is_green for one in group):
            for step in group[0].page.steps_for(group[0].kind):
                if step.mutates and (taken := [one for one in group if one.took(step)]):
                    yield step, taken


def _unused(rehearsals: Sequence[RehearsedPage]) -> Iterator[Omission]:
    for group in _groups(rehearsals):
        if all(one.result.is_green for one in group):
            for step in group[0].page.steps_for(group[0].kind):
                if not any(one.took(step) for one in group):
                    yield Omission(page=group[0].page, kind=group[0].kind, step=step, noticed=None)
