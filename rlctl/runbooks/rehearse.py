"""Proves pages: each is followed from every fault to health, and again without each step that changes something."""

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
# Without a step, the others get this many times what they needed with it, and no less than so many seconds.
PATIENCE_FACTOR = 3.0
LEAST_PATIENCE_S = 6.0
REST_PATIENCE_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRehearsal:
    """A page followed from one fault, on one kind of fleet."""

    page: Runbook
    kind: Kind
    index: int
    result: RehearsalResult

    @property
    def rehearsal(self) -> Rehearsal:
        """The fault and the fleet."""
        return self.page.rehearsals[self.index]

    def took(self, step: Step) -> bool:
        """Whether the step was taken, and not left out as not called for."""
        return any(one["id"] == step.id and one["outcome"] == "done" for one in self.result.steps)

    def to_json(self) -> dict[str, object]:
        """As `runbook test -o json` shows it."""
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
    """A step that was left out, or that no fault calls for; `noticed` says what went wrong without it."""

    page: Runbook
    kind: Kind
    step: Step
    noticed: str | None

    def to_json(self) -> dict[str, object]:
        """As `runbook test -o json` shows it."""
        return {"runbook": self.page.id, "kind": self.kind, "step": self.step.id, "noticed": self.noticed}


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalReport:
    """All passages, and what leaving steps out did.

    `unused` steps were never taken. `repeated` says why trials were made twice.
    """

    passages: tuple[PageRehearsal, ...]
    omissions: tuple[Omission, ...]
    unused: tuple[Omission, ...]
    repeated: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every page leads to health, and has no step too many."""
        return all(one.result.is_green for one in self.passages) and not self.dead and not self.unused

    @property
    def dead(self) -> tuple[Omission, ...]:
        """Steps that nobody misses."""
        return tuple(one for one in self.omissions if one.noticed is None)


class FleetNotBuilt(Exception):
    """A trial whose process says itself why it could not be made; one that crashed says nothing, and is a bug."""


@dataclass(frozen=True, kw_only=True)
class Rehearser:
    """Makes trials, some at the same time: each has a network and processes of its own."""

    home: Home
    jobs: int
    progress: Progress
    stop: StopFlag
    is_detailed: bool = False
    passages_only: bool = False
    _repeated: list[str] = field(default_factory=list)

    def prove(self, pages: Sequence[Runbook], kinds: Sequence[Kind]) -> RehearsalReport:
        """Every page on every kind of fleet that it is for; Refused where this machine gives no namespaces."""
        reason = why_unavailable(ProcessRunner())
        if reason is not None:
            raise Refused(
                f"a runbook is tried in namespaces of its own, which is not possible here: {reason}",
                hint="run it where unprivileged namespaces are allowed",
            )
        note_cleaned_up(clean_up_throw_away(self.home, self.progress), self.progress)
        wanted = [(page, kind, index) for page in pages for kind in kinds for index in _rehearsals(page, kind)]
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            passages = tuple(pool.map(lambda one: self._follow(*one), wanted))
            to_omit = [] if self.passages_only else list(_to_omit(passages))
            omissions = tuple(pool.map(lambda one: self._leave_out(*one), to_omit))
        self.stop.check()
        return RehearsalReport(
            passages=passages, omissions=omissions, unused=tuple(_unused(passages)), repeated=tuple(self._repeated)
        )

    def _follow(self, page: Runbook, kind: Kind, index: int) -> PageRehearsal:
        result = self._try(RehearsalRequest(page=page_reference(page), kind=kind, rehearsal=index))
        passage = PageRehearsal(page=page, kind=kind, index=index, result=result)
        told = f"green after {result.recovered_s:.1f} s" if result.is_green and result.recovered_s else result.reason
        self.progress.note(f"{page.id} {kind} {passage.rehearsal.fault}: {told}")
        return passage

    def _leave_out(self, step: Step, passages: Sequence[PageRehearsal]) -> Omission:
        noticed = missed(step, (self._without(step, passage) for passage in passages))
        page, kind = passages[0].page, passages[0].kind
        told = f"noticed, {noticed}" if noticed else "nobody notices"
        self.progress.note(f"{page.id} {kind} without {step.id}: {told}")
        return Omission(page=page, kind=kind, step=step, noticed=noticed)

    def _without(self, step: Step, passage: PageRehearsal) -> RehearsalResult:
        request = RehearsalRequest(
            page=page_reference(passage.page),
            kind=passage.kind,
            rehearsal=passage.index,
            omitted=step.id,
            patience_s=patience(passage.result.steps),
        )
        return self._try(request)

    def _try(self, request: RehearsalRequest) -> RehearsalResult:
        """A fleet that cannot be built on a busy machine says nothing of a page: try once more, and keep the reason."""
        try:
            return self._try_once(request)
        except FleetNotBuilt as failure:
            self._repeated.append(str(failure))
            self.progress.note(f"{failure}; once more")
        try:
            return self._try_once(request)
        except FleetNotBuilt as failure:
            raise Unreachable(str(failure), hint="run it with -v") from failure

    def _try_once(self, request: RehearsalRequest) -> RehearsalResult:
        self.stop.check()
        with throw_away(self.home, "runbook") as folder:
            folder.write(REQUEST, request.to_json())
            environment = {"RLCTL_HOME": str(folder.twin / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
            # This process owns the folder: it removes it, and the worker ends with this process.
            program = WorkerProgram(module=WORKER, in_sandbox=True, owns_folder=False, environment=environment)
            ended = program.run(folder, lambda text: self._show(request, text), self.stop)
            if self.stop.is_set:
                raise self.stop.kind("stopped; the throw-away fleets are gone", hint="the same command starts anew")
            result, failure = folder.read(RESULT), recorded_failure(folder)
        if result is not None:
            return RehearsalResult.from_json(result)
        what = f"a rehearsal of {request.page} could not be made"
        if failure is not None:
            raise FleetNotBuilt(f"{what}: {failure.message}")
        raise Unreachable(f"{what}: {ended.last_errors or f'exit {ended.code}'}", hint="run it with -v")

    def _show(self, request: RehearsalRequest, text: str) -> None:
        if self.is_detailed:
            self.progress.note(f"  {request.page} {request.kind}: {text}")


def missed(step: Step, results: Iterable[RehearsalResult]) -> str | None:
    """What went wrong without a step, where it was taken; None says that it is dead.

    A step is alive when one of the faults that call for it cannot be got over without it. What may lose data has to be
    missed after each of them: else it was taken needlessly. No more trials are made than that takes.
    """
    reason = None
    for result in results:
        reason = None if result.is_green else result.reason
        is_settled = result.is_green if step.risk is Risk.DANGER else not result.is_green
        if is_settled:
            break
    return reason


def patience(steps: Sequence[Mapping[str, object]]) -> dict[str, float]:
    """How long each step may take when another is missing; what waits in vain would else wait to its end."""
    needed = {str(one["id"]): float(str(one["elapsed_s"])) for one in steps}
    return {
        **{step: max(LEAST_PATIENCE_S, PATIENCE_FACTOR * took) for step, took in needed.items()},
        REST: REST_PATIENCE_S,
    }


def _rehearsals(page: Runbook, kind: Kind) -> list[int]:
    return [index for index, rehearsal in enumerate(page.rehearsals) if kind in rehearsal.kinds]


def _groups(passages: Sequence[PageRehearsal]) -> Iterator[list[PageRehearsal]]:
    """The passages of one page on one kind."""
    keys = dict.fromkeys((one.page.source, one.kind) for one in passages)
    for key in keys:
        yield [one for one in passages if (one.page.source, one.kind) == key]


def _to_omit(passages: Sequence[PageRehearsal]) -> Iterator[tuple[Step, list[PageRehearsal]]]:
    """Every step that changes something, with the passages that took it; nothing is learned where one failed."""
    for group in _groups(passages):
        if all(one.result.is_green for one in group):
            for step in group[0].page.steps_for(group[0].kind):
                if step.mutates and (taken := [one for one in group if one.took(step)]):
                    yield step, taken


def _unused(passages: Sequence[PageRehearsal]) -> Iterator[Omission]:
    for group in _groups(passages):
        if all(one.result.is_green for one in group):
            for step in group[0].page.steps_for(group[0].kind):
                if not any(one.took(step) for one in group):
                    yield Omission(page=group[0].page, kind=group[0].kind, step=step, noticed=None)
