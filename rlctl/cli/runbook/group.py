"""rlctl runbook: shows, runs and rehearses the pages for incidents."""

import os
import sys
from collections.abc import Sequence

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpGroup
from rlctl.cli.runbook.output import (
    show_ending,
    show_page,
    show_pages,
    show_proof,
    show_result,
    show_start,
    show_step_start,
    show_steps,
)
from rlctl.errors import Declined, Exit, Interrupted, InvalidFile, NotFound, Unreachable
from rlctl.execute.journal import current_user
from rlctl.execute.stop import StopFlag
from rlctl.runbooks.catalog import all_shipped, find
from rlctl.runbooks.page.model import PageSection, Risk, Runbook, Step
from rlctl.runbooks.rehearse import Rehearser
from rlctl.runbooks.run import PageRun, RlctlRunner, RunResult, StepRun
from rlctl.runbooks.transcript import Transcript
from rlctl.runbooks.variables import fixed_variables
from rlctl.system.clock import SystemClock
from rlctl.system.process import GracefulRunner
from rlctl.topology.model import Kind, Topology


@click.group(cls=HelpGroup)
def runbook() -> None:
    """Show, run or rehearse the pages for incidents.

    Examples:
      rlctl runbook list
      rlctl runbook show RB-01
      rlctl runbook run RB-01
      rlctl runbook test RB-01
    """


@runbook.command(name="list")
@with_app
def list_(app: App) -> None:
    """List the runbooks.

    Examples:
      rlctl runbook list
      rlctl runbook list -o json
    """
    show_pages(app, all_shipped())


@runbook.command()
@click.argument("page", metavar="RUNBOOK")
@with_app
def show(app: App, page: str) -> None:
    """Show a runbook, with the fleet's name in its commands.

    RUNBOOK is an id such as RB-01, a name such as primary-down, or a file.

    Examples:
      rlctl runbook show RB-01
      rlctl runbook show primary-down
      rlctl runbook show RB-01 > page.md
    """
    show_page(app, find(page), _known_variables(app))


@runbook.command()
@click.argument("page", metavar="RUNBOOK")
@click.option("--yes", is_flag=True, help="Agree in advance to steps that can be undone.")
@click.option("--confirm", metavar="NAME", help="Fleet's name, to agree in advance to steps that can lose data.")
@click.option("--dry-run", is_flag=True, help="Show the steps for this fleet, run none, and exit 10.")
@with_app
def run(app: App, page: str, yes: bool, confirm: str | None, dry_run: bool) -> int:
    """Run the steps of a runbook on the fleet.

    Asks before each step that changes something. A transcript keeps every step and its output. Exit 0 if the checks
    at the end pass, 13 if a step does not end as the page expects, 15 if a check fails.

    Examples:
      rlctl runbook run RB-01 --dry-run
      rlctl runbook run RB-01
      rlctl runbook run RB-09 --yes
      rlctl runbook run RB-04 --yes --confirm limiter
    """
    topology = app.topology()
    wanted = _page_for(page, topology)
    values = fixed_variables(topology, app.file.absolute().parent)
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
            message = f"{answer.message}; stopped before step {step.id}"
            raise Declined(message, hint=_hint(wanted, topology, step)) from answer
        stop.check()

    def report(result: StepRun) -> None:
        transcript.step(result)
        show_result(app, result)

    show_start(app, wanted, topology, transcript.path)
    page_run = PageRun(
        page=wanted,
        kind=topology.kind,
        values=values,
        runner=RlctlRunner(runner=GracefulRunner(is_stopped=lambda: stop.is_set), file=app.file),
        clock=clock,
        agree=agree,
        report=report,
        announce=lambda step, command: show_step_start(app, step, command),
        before=check_stop,
    )
    walked = _carry_out(app, page_run, transcript, stop)
    show_ending(app, wanted, topology.name, walked, transcript.path)
    return _exit(walked)


@runbook.command()
@click.argument("pages", nargs=-1, metavar="[RUNBOOK]...")
@click.option("--kind", type=click.Choice([one.value for one in Kind]), help="Kind of fleet to rehearse on [both].")
@click.option(
    "-j", "--jobs", type=click.IntRange(1, 16), help="Rehearsals to run at the same time [one for each processor]."
)
@click.option("--passages-only", is_flag=True, help="Skip the rehearsals that leave out a step; takes half the time.")
@with_app
def test(app: App, pages: Sequence[str], kind: str | None, jobs: int | None, passages_only: bool) -> int:
    """Rehearse runbooks on throw-away fleets [all runbooks].

    Causes each fault of a page and runs the page until the fleet is healthy. Then repeats this for each step that
    changes something, and leaves out that step: if the fleet still recovers, the step is dead. Your own fleets are not
    touched.

    Exit 0 if the fleet recovers in every rehearsal of a whole page. Exit 14 if it does not, or if a step is dead or
    never ran.

    Examples:
      rlctl runbook test RB-01
      rlctl runbook test --kind sentinel
      rlctl runbook test ./RB-77-our-own.md --passages-only
    """
    wanted = [find(name) for name in pages] or list(all_shipped())
    kinds = [Kind(kind)] if kind else list(Kind)
    stop = StopFlag()
    rehearser = Rehearser(
        home=app.home,
        jobs=jobs or os.cpu_count() or 1,
        progress=app.output,
        stop=stop,
        is_detailed=app.verbose,
        without_omissions=passages_only,
    )
    started_s = SystemClock().monotonic()
    with stop.armed():
        proof = rehearser.rehearse_all(wanted, kinds)
    show_proof(app, proof, SystemClock().monotonic() - started_s)
    return Exit.OK if proof.holds else Exit.DRILL_FAILED


def _carry_out(app: App, page_run: PageRun, transcript: Transcript, stop: StopFlag) -> RunResult:
    """Run all steps. After a stop signal, ends the running step with SIGTERM and raises Interrupted."""
    try:
        with stop.armed():
            walked = page_run.carry_out()
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
        raise NotFound(
            f"{page.id} is for {kinds}, this fleet is of kind {topology.kind}",
            hint="`rlctl runbook list` shows the kinds of each runbook",
        )
    return page


def _agree(app: App, topology: Topology, step: Step, command: str, *, yes: bool, confirm: str | None) -> None:
    if step.risk is Risk.DANGER:
        app.agree_to_loss(topology.name, (f"{step.prose.removesuffix(':')}: `{command}`",), confirmed=confirm)
    else:
        # With -q, the note that shows the command is hidden, so the question shows the command.
        about = (command,) if app.output.quiet else ()
        app.agree(f"  this changes fleet {topology.name}; run it?", yes=yes, about=about)


def _hint(page: Runbook, topology: Topology, step: Step) -> str:
    if sys.stdin.isatty():
        return f"earlier steps stay done; `rlctl runbook show {page.id}` shows how to continue by hand"
    if step.risk is Risk.DANGER:
        return f"--confirm {topology.name} agrees in advance; --yes does not"
    return "--yes agrees in advance"


def _exit(walked: RunResult) -> Exit:
    failed = walked.failed
    if failed is None:
        return Exit.OK
    return Exit.CHECK_FAILED if failed.step.section in {PageSection.VERIFY, PageSection.UNDO} else Exit.PARTIAL


def _known_variables(app: App) -> dict[str, str]:
    """Return the variables of the fleet, or {} if the topology file cannot be read: a page can be shown without it."""
    try:
        return fixed_variables(app.topology(), app.file.absolute().parent)
    except (NotFound, InvalidFile, Unreachable) as failure:
        if app.names_file or not isinstance(failure, NotFound):
            app.output.note(f"the page shows variables instead of names: {failure.message}")
        return {}
