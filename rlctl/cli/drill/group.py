"""rlctl failover-drill: breaks a fleet on purpose and measures what was lost."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.drill.output import scenario_json, show_preview, show_run, show_scenario, show_scenarios
from rlctl.cli.help import HelpGroup
from rlctl.drills.engine.launch import DrillLauncher, conclude
from rlctl.drills.record.runs import clean_up_all, describe_runs, find_run
from rlctl.drills.report import write_overview, write_report
from rlctl.drills.report.junit import junit
from rlctl.drills.scenario.library import all_shipped, find, flagships
from rlctl.drills.scenario.load import ScenarioFile
from rlctl.errors import Exit, NotFound, Refused, UsageFault
from rlctl.execute.stop import StopFlag
from rlctl.lab.run_folder import RunFolder
from rlctl.system.clock import SystemClock
from rlctl.system.files import write_private
from rlctl.topology.model import Kind

# The topology of a twin if no topology file exists.
_PLAIN = "version: 1\nname: drill\nkind: {kind}\ntarget: local\n"
_EXITS = {"pass": Exit.OK, "fail": Exit.DRILL_FAILED, "inconclusive": Exit.INCONCLUSIVE}
_VERBS = ("run", "list", "show", "report", "heal")


class DrillGroup(HelpGroup):
    """A group whose default command is `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not any(word in _VERBS for word in args) and not {"-h", "--help"} & set(args):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DrillGroup)
def failover_drill() -> None:
    """Break a throw-away twin of the fleet and measure the loss.

    Without a command, runs the two default scenarios: write-loss and split-brain.

    Examples:
      rlctl failover-drill
      rlctl failover-drill run pause --kind sentinel
      rlctl failover-drill list
      rlctl failover-drill show split-brain
      rlctl failover-drill report
    """


@failover_drill.command()
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option("--kind", type=click.Choice([one.value for one in Kind]), help="Kind of the twin [the topology's].")
@click.option("--variant", metavar="NAME", help="Variant of the scenario, as listed by `show` [all].")
@click.option(
    "--stock-timers", is_flag=True, help="Keep the timers of the topology, as in production; runs take longer."
)
@click.option(
    "--live", is_flag=True, help="Break the deployed fleet instead of a twin; needs drills.allow and --confirm."
)
@click.option("--confirm", metavar="NAME", help="Fleet's name, to agree in advance to the data loss of --live.")
@click.option("--dry-run", is_flag=True, help="Show what would be broken and lost, break nothing, and exit 10.")
@click.option("--junit", "junit_path", type=click.Path(path_type=Path), help="File for a JUnit XML report.")
@with_app
def run(
    app: App,
    scenarios: Sequence[str],
    kind: str | None,
    variant: str | None,
    stock_timers: bool,
    live: bool,
    confirm: str | None,
    dry_run: bool,
    junit_path: Path | None,
) -> int:
    """Run scenarios [write-loss and split-brain].

    SCENARIO is a name from `list` or a file of your own. Exit 0 if the results are as expected, 14 if not or if a
    budget is exceeded, 16 if a run is inconclusive.

    Examples:
      rlctl failover-drill run
      rlctl failover-drill run split-brain --kind sentinel --stock-timers
      rlctl failover-drill run write-loss --live --confirm limiter
      rlctl failover-drill run --dry-run
    """
    text, wanted = _topology(app, kind)
    files = [find(name) for name in scenarios] or list(flagships(wanted))
    launcher = DrillLauncher(
        home=app.home,
        clock=SystemClock(),
        topology=text,
        kind=wanted,
        live=live,
        stock_timers=stock_timers,
        argv=app.argv,
        variant=variant,
    )
    launcher.check(files)
    if dry_run:
        return _preview(app, launcher, files)
    if live:
        _agree_to_live_drill(app, files, wanted, confirm)
    elif confirm is not None:
        raise UsageFault("--confirm is for --live", hint="leave out --confirm: a twin holds no data of yours")
    stop = StopFlag()
    with stop.armed():
        runs = launcher.run(files, app.output, stop)
    write_pages(app, runs)
    if junit_path is not None:
        write_private(junit_path, junit(runs, {str(one["id"]): seconds(one) for one in runs}))
    _show(app, runs)
    return worst(str(one["verdict"]) for one in runs)


@failover_drill.command(name="list")
@with_app
def list_(app: App) -> int:
    """List the scenarios and the runs of this machine.

    Examples:
      rlctl failover-drill list
      rlctl failover-drill list -o json
    """
    runs = list(describe_runs(app.home))
    if app.output.as_json:
        shipped = [scenario_json(file, file.for_kind(file.kinds[0])) for file in all_shipped()]
        app.output.result({"schema": "rlctl.failover-drill-list/1", "scenarios": shipped, "runs": runs})
    else:
        show_scenarios(app.output, all_shipped(), runs)
    return Exit.OK


@failover_drill.command()
@click.argument("scenario", required=False)
@click.option("--run", "run_id", is_flag=False, flag_value="", metavar="[ID]", help="Id of a run to show [the latest].")
@click.option(
    "--kind",
    type=click.Choice([one.value for one in Kind]),
    help="Kind of fleet to show the scenario for [its first kind].",
)
@with_app
def show(app: App, scenario: str | None, run_id: str | None, kind: str | None) -> int:
    """Show a scenario, or the result of a run.

    For a scenario, shows what it teaches, needs and breaks.

    Examples:
      rlctl failover-drill show write-loss
      rlctl failover-drill show --run
    """
    if run_id is not None:
        _show(app, [_result(find_run(app.home, run_id or scenario))])
        return Exit.OK
    if scenario is None:
        raise UsageFault("a scenario or --run is missing", hint="`rlctl failover-drill list` lists scenarios and runs")
    file = find(scenario)
    chosen = file.for_kind(Kind(kind) if kind else file.kinds[0])
    if app.output.as_json:
        app.output.result({"schema": "rlctl.failover-drill-show/1", **scenario_json(file, chosen)})
    else:
        show_scenario(app.output, file, chosen)
    return Exit.OK


@failover_drill.command()
@click.argument("run_id", required=False, metavar="[ID]")
@with_app
def report(app: App, run_id: str | None) -> int:
    """Write the report of a run again and print its path.

    ID is the run [the latest]. rlctl computes the verdict again from the run's records, even if the run was killed.

    Examples:
      rlctl failover-drill report
    """
    folder = find_run(app.home, run_id)
    if folder.state == "running":
        raise Refused(f"run {folder.id} has not ended", hint="run the command again when the drill has ended")
    document = conclude(folder)
    [written] = write_pages(app, [document])
    if app.output.as_json:
        app.output.result({"schema": "rlctl.failover-drill-report/1", "id": folder.id, "report": str(written)})
    else:
        app.output.text(str(written))
    return Exit.OK


@failover_drill.command()
@with_app
def heal(app: App) -> int:
    """Remove the faults and processes of runs that were killed.

    You can repeat the command at any time.

    Examples:
      rlctl failover-drill heal
    """
    done = clean_up_all(app.home, app.output)
    if app.output.as_json:
        app.output.result({"schema": "rlctl.failover-drill-heal/1", "runs": done})
    elif not done:
        app.output.text("nothing to heal")
    else:
        app.output.table(
            ["RUN", "UNDONE"], [[str(one["id"]), "; ".join(map(str, _list(one["undone"])))] for one in done]
        )
    return Exit.OK


def seconds(one: Mapping[str, object]) -> float:
    """Return the duration of a run."""
    elapsed_s = one.get("elapsed_s")
    return float(elapsed_s) if isinstance(elapsed_s, float | int) else 0.0


def worst(verdicts: Iterable[str]) -> int:
    """Return the exit code of the worst verdict. Inconclusive is the worst, because such a run proves nothing."""
    return max((_EXITS[verdict] for verdict in verdicts), default=Exit.OK)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _topology(app: App, kind: str | None) -> tuple[str, Kind]:
    """Return the topology's text and the twin's kind; a minimal text if --kind is given and no file exists."""
    if kind is not None and not app.file.exists() and not app.names_file:
        return _PLAIN.format(kind=kind), Kind(kind)
    topology = app.topology()
    return app.file.read_text(encoding="utf-8"), Kind(kind) if kind else topology.kind


def _agree_to_live_drill(app: App, files: Sequence[ScenarioFile], kind: Kind, confirm: str | None) -> None:
    """Require `drills.allow` and the fleet's name, because a live drill can lose writes of real users."""
    topology = app.topology()
    if topology.kind is not kind:
        raise UsageFault(f"the deployed fleet is of kind {topology.kind}", hint="leave out --kind with --live")
    if not topology.drills.allow:
        raise Refused(
            f"{app.file} does not allow drills on the live fleet",
            hint="set `drills: {allow: true}` in the file, or leave out --live to use a twin",
        )
    losses = tuple(f"{file.name} breaks {scenario.breaks}" for file in files for scenario in file.for_kind(kind)[:1])
    app.agree_to_loss(topology.name, losses, confirmed=confirm)


def _preview(app: App, launcher: DrillLauncher, files: Sequence[ScenarioFile]) -> int:
    plans = launcher.preview(files)
    if app.output.as_json:
        app.output.result({"schema": "rlctl.failover-drill-run/1", "dry_run": True, "plans": plans})
    else:
        for plan in plans:
            show_preview(app.output, plan)
    return Exit.CHANGES


def write_pages(app: App, runs: Sequence[dict[str, object]]) -> list[Path]:
    """Write a report for each run, and an overview of several runs."""
    pages = []
    for one in runs:
        folder = RunFolder(app.home.drills / str(one["id"]))
        page = write_report(folder, one, folder.read("series.json") or {})
        one["report"] = str(page)
        folder.write("result.json", one)
        pages.append(page)
    if len(runs) > 1:
        folder = RunFolder(app.home.drills / str(runs[-1]["id"]))
        app.output.note(f"overview: {write_overview(folder.root / 'overview.html', runs)}")
    return pages


def _result(folder: RunFolder) -> dict[str, object]:
    document = folder.read("result.json")
    if document is None:
        if folder.state == "running":
            raise NotFound(f"run {folder.id} has no result yet", hint="run the command again when the drill has ended")
        document = conclude(folder)
    return document


def _show(app: App, runs: Sequence[dict[str, object]]) -> None:
    if app.output.as_json:
        app.output.result({"schema": "rlctl.failover-drill-run/1", "runs": list(runs)})
        return
    for one in runs:
        show_run(app.output, one)
