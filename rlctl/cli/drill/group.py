"""rlctl failover-drill: break a fleet on purpose, and say with numbers what was lost."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.drill.output import scenario_json, show_preview, show_run, show_scenario, show_scenarios
from rlctl.drills.engine.launch import Programme, conclude
from rlctl.drills.record.runs import describe_runs, find_run, sweep_all
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

# What a twin is like where no topology was written yet.
_PLAIN = "version: 1\nname: drill\nkind: {kind}\ntarget: local\n"
_EXITS = {"pass": Exit.OK, "fail": Exit.DRILL_FAILED, "inconclusive": Exit.INCONCLUSIVE}
_VERBS = ("run", "list", "show", "report", "heal")


class DrillGroup(click.Group):
    """Bare, it runs both flagships."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a verb, `run` is meant."""
        if not any(word in _VERBS for word in args) and not {"-h", "--help"} & set(args):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DrillGroup)
def failover_drill() -> None:
    """Rehearse failovers on a throw-away twin of the fleet, and prove what they lose.

    \b
    rlctl failover-drill                            write loss and split brain
    rlctl failover-drill run pause --kind sentinel
    rlctl failover-drill list
    rlctl failover-drill show split-brain
    rlctl failover-drill report                     the latest run's page again
    """


@failover_drill.command()
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option("--kind", type=click.Choice([one.value for one in Kind]), help="Kind of the twin [the topology's].")
@click.option("--variant", metavar="NAME", help="Only this variant of the scenario; `show` names them.")
@click.option("--stock-timers", is_flag=True, help="Keep the topology's timers; slower, and what production does.")
@click.option("--live", is_flag=True, help="On the deployed fleet, not on a twin; wants drills.allow and --confirm.")
@click.option("--confirm", metavar="NAME", help="The fleet's name, agreeing in advance to what --live loses.")
@click.option("--dry-run", is_flag=True, help="Only say what would be broken and what should be lost; exit 10.")
@click.option("--junit", "junit_path", type=click.Path(path_type=Path), help="Write JUnit XML for CI as well.")
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
    """Run scenarios; without a name both flagships, write-loss and split-brain.

    SCENARIO is one of `list`, or a file of your own. Exit 0 as expected, 14 not as expected or over budget,
    16 inconclusive.

    \b
    rlctl failover-drill run
    rlctl failover-drill run split-brain --kind sentinel --stock-timers
    rlctl failover-drill run write-loss --live --confirm limiter
    rlctl failover-drill run --dry-run
    """
    text, wanted = _topology(app, kind)
    files = [find(name) for name in scenarios] or list(flagships(wanted))
    programme = Programme(
        home=app.home,
        clock=SystemClock(),
        topology=text,
        kind=wanted,
        live=live,
        stock_timers=stock_timers,
        argv=app.argv,
        variant=variant,
    )
    programme.check(files)
    if dry_run:
        return _preview(app, programme, files)
    if live:
        _agree(app, files, wanted, confirm)
    elif confirm is not None:
        raise UsageFault("--confirm is for --live", hint="a twin is thrown away; nothing of yours can be lost")
    stop = StopFlag()
    with stop.armed():
        runs = programme.run(files, app.output, stop)
    write_pages(app, runs)
    if junit_path is not None:
        write_private(junit_path, junit(runs, {str(one["id"]): seconds(one) for one in runs}))
    _show(app, runs)
    return worst(str(one["verdict"]) for one in runs)


@failover_drill.command(name="list")
@with_app
def list_(app: App) -> int:
    """The scenarios, and the runs of this machine.

    \b
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
@click.option(
    "--run", "run_id", is_flag=False, flag_value="", metavar="[ID]", help="Show a run, by default the latest."
)
@click.option("--kind", type=click.Choice([one.value for one in Kind]), help="Kind of fleet to show it for.")
@with_app
def show(app: App, scenario: str | None, run_id: str | None, kind: str | None) -> int:
    """What a scenario teaches, needs and breaks; or with --run, what a run found.

    \b
    rlctl failover-drill show write-loss
    rlctl failover-drill show --run
    """
    if run_id is not None:
        _show(app, [_result(find_run(app.home, run_id or scenario))])
        return Exit.OK
    if scenario is None:
        raise UsageFault("name a scenario, or give --run", hint="`rlctl failover-drill list` names them")
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
    """Judge a run again by what it wrote down, write its page, and print where that is; killed runs too.

    \b
    rlctl failover-drill report
    """
    folder = find_run(app.home, run_id)
    if folder.state == "running":
        raise Refused(f"run {folder.id} still runs", hint="wait for its end")
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
    """Undo what killed runs left behind; right at any time, and twice.

    \b
    rlctl failover-drill heal
    """
    done = sweep_all(app.home, app.output)
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
    """How long a run took."""
    elapsed_s = one.get("elapsed_s")
    return float(elapsed_s) if isinstance(elapsed_s, float | int) else 0.0


def worst(verdicts: Iterable[str]) -> int:
    """Inconclusive outranks fail: nothing was proven."""
    return max((_EXITS[verdict] for verdict in verdicts), default=Exit.OK)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _topology(app: App, kind: str | None) -> tuple[str, Kind]:
    """The topology's text, or a plain one where a kind was named and there is no file."""
    if kind is not None and not app.file.exists() and not app.names_file:
        return _PLAIN.format(kind=kind), Kind(kind)
    topology = app.topology()
    return app.file.read_text(encoding="utf-8"), Kind(kind) if kind else topology.kind


def _agree(app: App, files: Sequence[ScenarioFile], kind: Kind, confirm: str | None) -> None:
    """A live drill loses writes of real users: the file must allow it, and the name be typed."""
    topology = app.topology()
    if topology.kind is not kind:
        raise UsageFault(f"the deployed fleet is of kind {topology.kind}", hint="leave --kind out with --live")
    if not topology.drills.allow:
        raise Refused(
            f"{app.file} does not allow drills on the live fleet",
            hint="set `drills: {allow: true}` in it, or use a twin",
        )
    losses = tuple(f"{file.name} breaks {scenario.breaks}" for file in files for scenario in file.for_kind(kind)[:1])
    app.agree_to_loss(topology.name, losses, confirmed=confirm)


def _preview(app: App, programme: Programme, files: Sequence[ScenarioFile]) -> int:
    plans = programme.preview(files)
    if app.output.as_json:
        app.output.result({"schema": "rlctl.failover-drill-run/1", "dry_run": True, "plans": plans})
    else:
        for plan in plans:
            show_preview(app.output, plan)
    return Exit.CHANGES


def write_pages(app: App, runs: Sequence[dict[str, object]]) -> list[Path]:
    """A page for each run, and one for several."""
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
            raise NotFound(f"run {folder.id} has no result yet", hint="wait for its end")
        document = conclude(folder)
    return document


def _show(app: App, runs: Sequence[dict[str, object]]) -> None:
    if app.output.as_json:
        app.output.result({"schema": "rlctl.failover-drill-run/1", "runs": list(runs)})
        return
    for one in runs:
        show_run(app.output, one)
