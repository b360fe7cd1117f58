"""rlctl runbook: incident pages to read, to carry out, and to try against real faults."""

import os
import sys
from collections.abc import Sequence

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.runbook.output import (
    show_announced,
    show_page,
    show_pages,
    show_proof,
    show_result,
    show_start,
    show_steps,
    show_walked,
)
from rlctl.errors import Declined, Exit, Interrupted, InvalidFile, NotFound, Unreachable
from rlctl.execute.journal import current_user
from rlctl.execute.stop import StopFlag
from rlctl.runbooks.catalog import all_shipped, find
from rlctl.runbooks.page.model import Risk, Runbook, Section, Step
from rlctl.runbooks.rehearse import Prover
from rlctl.runbooks.run import OwnHand, StepResult, Walk, Walked
from rlctl.runbooks.transcript import Transcript
from rlctl.runbooks.variables import given
from rlctl.system.clock import SystemClock
from rlctl.system.process import GracefulRunner
from rlctl.topology.model import Kind, Topology


@click.group()
def runbook() -> None:
    """Incident pages: read them, have them carried out, or try them against the very fault.

    \b
    rlctl runbook list
    rlctl runbook show RB-01
    rlctl runbook run RB-01
    rlctl runbook test RB-01
    """


@runbook.command(name="list")
@with_app
def list_(app: App) -> None:
    """The pages, by what is seen.

    \b
    rlctl runbook list
    rlctl runbook list -o json
    """
    show_pages(app, all_shipped())


@runbook.command()
@click.argument("page", metavar="RUNBOOK")
@with_app
def show(app: App, page: str) -> None:
    """Show a page, its commands with the fleet's name filled in; RUNBOOK is an id such as RB-01, or a file.

    \b
    rlctl runbook show RB-01
    rlctl runbook show primary-down
    rlctl runbook show RB-01 > page.md
    """
    show_page(app, find(page), _values_where_known(app))


@runbook.command()
@click.argument("page", metavar="RUNBOOK")
@click.option("--yes", is_flag=True, help="Take steps that can be taken back without asking.")
@click.option("--confirm", metavar="NAME", help="The fleet's name, agreeing in advance to steps that can lose data.")
@click.option("--dry-run", is_flag=True, help="List the steps for this fleet and carry none out; exit 10.")
@with_app
def run(app: App, page: str, yes: bool, confirm: str | None, dry_run: bool) -> int:
    """Carry a page out on the fleet, step by step; asks before each step that changes something.

    Every step and what it printed is kept in a transcript. Exit 0 when the checks say that it is over, 13 when a step
    did not end as the page expects, 15 when a check did not.

    \b
    rlctl runbook run RB-01 --dry-run
    rlctl runbook run RB-01
    rlctl runbook run RB-09 --yes
    rlctl runbook run RB-04 --yes --confirm limiter
    """
    topology = app.topology()
    wanted = _page_for(page, topology)
    values = given(topology, app.file.absolute().parent)
    if dry_run:
        show_steps(app, wanted, wanted.steps_for(topology.kind), values)
        return Exit.CHANGES
    clock, stop = SystemClock(), StopFlag()
    transcript = Transcript.begin(app.home, clock, wanted, topology.name, current_user())

    def check_stop(_step: Step) -> None:
        stop.check()

    def agree(step: Step, command: str) -> None:
        try:
            _agree(app, topology, step, command, yes=yes, confirm=confirm)
        except Declined as answer:
            transcript.declined(command)
            app.output.note(f"transcript: {transcript.path}")
            message = f"{answer.message}: stopped at {step.id}, which was not carried out"
            raise Declined(message, hint=_hint(wanted, topology, step)) from answer
        stop.check()

    def tell(result: StepResult) -> None:
        transcript.step(result)
        show_result(app, result)

    show_start(app, wanted, topology, transcript.path)
    walk = Walk(
        page=wanted,
        kind=topology.kind,
        values=values,
        hand=OwnHand(runner=GracefulRunner(is_stopped=lambda: stop.is_set), file=app.file),
        clock=clock,
        agree=agree,
        tell=tell,
        announce=lambda step, command: show_announced(app, step, command),
        before=check_stop,
    )
    walked = _carry_out(app, walk, transcript, stop)
    show_walked(app, wanted, topology.name, walked, transcript.path)
    return _exit(walked)


@runbook.command()
@click.argument("pages", nargs=-1, metavar="[RUNBOOK]...")
@click.option("--kind", type=click.Choice([one.value for one in Kind]), help="Only on fleets of this kind [both].")
@click.option("-j", "--jobs", type=click.IntRange(1, 16), help="Trials at the same time [one a processor].")
@click.option("--passages-only", is_flag=True, help="Do not repeat pages without each of their steps: half the time.")
@with_app
def test(app: App, pages: Sequence[str], kind: str | None, jobs: int | None, passages_only: bool) -> int:
    """Follow pages from the very fault to health on throw-away fleets; without a name, all of them.

    Each page is also followed without each of its steps that change something: where nobody notices, the step is dead.
    Touches no fleet of yours. Exit 0 when every page leads to health, 14 when one does not or has a dead step.

    \b
    rlctl runbook test RB-01
    rlctl runbook test --kind sentinel
    rlctl runbook test ./RB-77-our-own.md --passages-only
    """
    wanted = [find(name) for name in pages] or list(all_shipped())
    kinds = [Kind(kind)] if kind else list(Kind)
    stop = StopFlag()
    prover = Prover(
        home=app.home,
        jobs=jobs or os.cpu_count() or 1,
        progress=app.output,
        stop=stop,
        is_detailed=app.verbose,
        passages_only=passages_only,
    )
    started_s = SystemClock().monotonic()
    with stop.armed():
        proof = prover.prove(wanted, kinds)
    show_proof(app, proof, SystemClock().monotonic() - started_s)
    return Exit.OK if proof.holds else Exit.DRILL_FAILED


def _carry_out(app: App, walk: Walk, transcript: Transcript, stop: StopFlag) -> Walked:
    """All of it, or until somebody stops us; the step that runs then is told to stop, and ends in its own way."""
    try:
        with stop.armed():
            walked = walk.carry_out()
            stop.check()
    except Interrupted as failure:
        transcript.interrupted(failure.message)
        app.output.note(f"transcript: {transcript.path}")
        raise
    transcript.end(walked)
    return walked


def _page_for(name: str, topology: Topology) -> Runbook:
    page = find(name)
    if topology.kind not in page.kinds:
        kinds = " and ".join(page.kinds)
        raise NotFound(f"{page.id} is for {kinds}, the fleet is {topology.kind}", hint="`rlctl runbook list`")
    return page


def _agree(app: App, topology: Topology, step: Step, command: str, *, yes: bool, confirm: str | None) -> None:
    if step.risk is Risk.DANGER:
        app.agree_to_loss(topology.name, (f"{step.prose.removesuffix(':')}: `{command}`",), confirmed=confirm)
    else:
        # What was announced is hidden by -q.
        about = (command,) if app.output.quiet else ()
        app.agree(f"  changes the fleet {topology.name}; carry this out?", yes=yes, about=about)


def _hint(page: Runbook, topology: Topology, step: Step) -> str:
    if sys.stdin.isatty():
        return f"what was done before it stays done; `rlctl runbook show {page.id}` for going on by hand"
    if step.risk is Risk.DANGER:
        return f"--confirm {topology.name} agrees in advance; --yes does not"
    return "--yes agrees in advance"


def _exit(walked: Walked) -> Exit:
    failed = walked.failed
    if failed is None:
        return Exit.OK
    return Exit.CHECK_FAILED if failed.step.section in {Section.VERIFY, Section.UNDO} else Exit.PARTIAL


def _values_where_known(app: App) -> dict[str, str]:
    """A page can be read without any fleet, and with a broken topology file: then its variables stay as they are."""
    try:
        return given(app.topology(), app.file.absolute().parent)
    except (NotFound, InvalidFile, Unreachable) as failure:
        if app.names_file or not isinstance(failure, NotFound):
            app.output.note(f"names are not filled in: {failure.message}")
        return {}
