"""rlctl scripts: the Lua fleet."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.opened import note_differences, opened
from rlctl.cli.options import Duration
from rlctl.errors import CheckFailed, Exit, NotFound, PartlyDone, Refused, TimedOut, Unreachable
from rlctl.execute.locking import Waiting, hold
from rlctl.execute.session import open_fleet
from rlctl.execute.stop import StopFlag
from rlctl.limits.release import Release
from rlctl.operations.script_check import unserved_shards
from rlctl.operations.script_check import verify as verify_scripts
from rlctl.operations.scripts import (
    ApplyReport,
    ScriptsStatus,
    fleet_history,
    read_rights,
    read_scripts,
    run_apply,
    script_plan,
)
from rlctl.plan.planner import Plan
from rlctl.plan.steps import describe, kind
from rlctl.scripts.release import load_release
from rlctl.scripts.rights import RightsChange
from rlctl.system.clock import SystemClock

# What a watcher outlives: another node is down meanwhile, the fleet is locked for long, a server is full.
_PASSING = (PartlyDone, CheckFailed, Unreachable, TimedOut, Refused)


@click.group()
def scripts() -> None:
    """Load, check and watch the Lua limiter scripts of a fleet.

    \b
    rlctl scripts list -o json       names, arguments, SHA1s
    rlctl scripts status             what every node holds; exit 10 on drift
    rlctl scripts apply --yes        load what is missing, and prove it
    """


def _release_options(command: Any) -> Any:  # noqa: ANN401  click's decorators are untyped
    command = click.option("--lua", type=click.Path(path_type=Path), help="Another folder with a manifest.yaml.")(
        command
    )
    return click.option("--release", "version", help="Another release of the manifest, such as 1.0.0.")(command)


@scripts.command("list")
@_release_options
@with_app
def list_(app: App, lua: Path | None, version: str | None) -> None:
    """The scripts of the release: names, versions, arguments, SHA1s. Needs no fleet.

    \b
    rlctl scripts list -o json
    """
    release = load_release(lua, version)
    if app.output.as_json:
        app.output.result(release.to_json())
        return
    rows = [[one.name, one.version, one.sha1, ", ".join(one.args)] for one in release.scripts]
    app.output.table(["SCRIPT", "VERSION", "SHA1", "ARGUMENTS"], rows, title=f"release {release.version}")


@scripts.command()
@_release_options
@with_app
def plan(app: App, lua: Path | None, version: str | None) -> int:
    """What apply would load where; exit 10 when there is something.

    \b
    rlctl scripts plan
    """
    return _plan(app, load_release(lua, version))


@scripts.command()
@_release_options
@click.option("--yes", is_flag=True, help="Agree in advance.")
@click.option("--dry-run", is_flag=True, help="Only show what would be loaded; exit 10 when there is something.")
@click.option("--wait", is_flag=True, help="Wait while the fleet is locked, at most --timeout where it is given.")
@with_app
def apply(app: App, lua: Path | None, version: str | None, yes: bool, dry_run: bool, wait: bool) -> int:
    """Load the release on every node, replicas first, and prove it: SHA1s, EXISTS, and a decision on every shard.

    \b
    rlctl scripts apply --dry-run
    rlctl scripts apply --yes
    """
    if dry_run:
        return _plan(app, load_release(lua, version))
    _apply(app, load_release(lua, version), StopFlag(), yes=yes, wait=wait)
    return Exit.OK


@scripts.command()
@_release_options
@with_app
def status(app: App, lua: Path | None, version: str | None) -> int:
    """What every node holds, asked node by node; exit 10 on drift.

    \b
    rlctl scripts status -o json
    """
    with opened(app, load_release(lua, version)) as fleet:
        found = read_scripts(fleet)
    if app.output.as_json:
        app.output.result(found.to_json())
    else:
        _show_nodes(app, found)
        _show_drift(app, found)
    return Exit.CHANGES if found.drift else Exit.OK


@scripts.command()
@_release_options
@with_app
def verify(app: App, lua: Path | None, version: str | None) -> None:
    """Run the release's examples on every shard as the limiter user, and compare every reply; else exit 15.

    \b
    rlctl scripts verify
    """
    with opened(app, load_release(lua, version)) as fleet:
        observed = read_scripts(fleet).observed
        verdicts, unserved = verify_scripts(fleet, observed), unserved_shards(fleet, observed)
    if app.output.as_json:
        app.output.result({"schema": "rlctl.scripts-verify/1", "verdicts": [one.to_json() for one in verdicts]})
    else:
        rows = [[one.node, one.script, one.evidence or "ok"] for one in verdicts]
        app.output.table(["NODE", "SCRIPT", "VERDICT"], rows)
    wrong = [one for one in verdicts if one.evidence is not None]
    if unserved:
        raise CheckFailed(
            f"shards without a primary to ask: {unserved}; of the other {len(verdicts)} checks {len(wrong)} failed",
            hint="`rlctl status` shows how the fleet stands",
        )
    if wrong:
        raise CheckFailed(
            f"{len(wrong)} of {len(verdicts)} checks failed", hint="`rlctl scripts status` shows what is loaded"
        )


@scripts.command()
@click.option("--to", "wanted", help="The release to go back to [the one applied before].")
@click.option("--lua", type=click.Path(path_type=Path), help="Another folder with a manifest.yaml.")
@click.option("--yes", is_flag=True, help="Agree in advance.")
@with_app
def rollback(app: App, wanted: str | None, lua: Path | None, yes: bool) -> None:
    """Put the release before this one in force again; nothing is unloaded, so that both can serve side by side.

    \b
    rlctl scripts rollback --to 1.0.0
    """
    topology = app.topology()
    with opened(app) as fleet:
        seen = [str(entry["release"]) for entry in fleet_history(fleet) if entry.get("state") == "applied"]
    earlier = [version for version in seen[1:] if version != seen[0]]
    version = wanted or next(iter(earlier), None)
    if version is None:
        raise NotFound(f"fleet {topology.name} has seen no earlier release", hint="--to names one of the manifest")
    _apply(app, load_release(lua, version), StopFlag(), yes=yes, wait=False)


@scripts.command()
@with_app
def history(app: App) -> None:
    """The releases this fleet has seen, as the fleet itself remembers them.

    \b
    rlctl scripts history
    """
    topology = app.topology()
    with opened(app) as fleet:
        entries = fleet_history(fleet)
    if app.output.as_json:
        app.output.result({"schema": "rlctl.scripts-history/1", "name": topology.name, "entries": list(entries)})
        return
    rows = [[str(entry.get(key, "-")) for key in ("at", "by", "release", "state")] for entry in entries]
    app.output.table(["AT", "BY", "RELEASE", "STATE"], rows)


@scripts.command()
@_release_options
@click.option("--interval", type=Duration(), default="5s", show_default=True, help="How often to look.")
@click.option("--for", "duration", type=Duration(), help="How long to watch [until interrupted].")
@with_app
def watch(app: App, lua: Path | None, version: str | None, interval: float, duration: float | None) -> None:
    """Look again and again, and load what a restarted or flushed node lacks.

    \b
    rlctl scripts watch --interval 5s --for 1h
    """
    release = load_release(lua, version)
    clock, stop = SystemClock(), StopFlag()
    ends = None if duration is None else clock.monotonic() + duration
    while True:
        try:
            _look_after(app, release, stop)
        except _PASSING as failure:
            app.output.note(f"{failure.message}; looking again in {interval:g} s")
        # Somebody may have asked while scripts were loaded, when only the step was safe to end.
        stop.check()
        if ends is not None and clock.monotonic() >= ends:
            return
        clock.sleep(interval)


def _look_after(app: App, release: Release, stop: StopFlag) -> None:
    topology = app.topology()
    # Without the note on what deploy would refuse: it would come every few seconds.
    with open_fleet(topology, app.home, release) as fleet:
        lacking = script_plan(fleet, read_scripts(fleet).observed).steps
    if lacking:
        app.output.note(f"{topology.name}: {len(lacking)} nodes lack scripts")
        _apply(app, release, stop, yes=True, wait=True)


def _plan(app: App, release: Release) -> int:
    with opened(app, release) as fleet:
        status = read_scripts(fleet)
        found = script_plan(fleet, status.observed)
        rights = read_rights(fleet, status.observed, found)
    if app.output.as_json:
        steps = [{"kind": kind(step), "text": describe(step), "outcome": "planned"} for step in found.steps]
        app.output.result(status.to_json("plan") | {"steps": steps, "rights": rights and rights.to_json()})
    else:
        app.output.text("\n".join(_planned(found, rights)) or f"{found.fleet}: no change")
        _show_drift(app, status)
    return Exit.CHANGES if found.steps or status.drift else Exit.OK


def _planned(found: Plan, rights: RightsChange | None) -> Iterator[str]:
    yield from (describe(step) for step in found.steps)
    if rights is not None and rights.describe():
        yield rights.describe()


def _apply(app: App, release: Release, stop: StopFlag, *, yes: bool, wait: bool) -> None:
    topology = app.topology()

    def agree(found: Plan, rights: RightsChange | None) -> None:
        steps = (f"  {line}" for line in _planned(found, rights))
        app.agree(f"{topology.name}: put release {release.version} in force?", yes=yes, about=steps)

    waiting = Waiting(wanted=wait, at_most_s=app.timeout_s)
    with (
        stop.armed(),
        hold(topology, app.home, "scripts apply", stop, app.output, waiting=waiting, release=release) as held,
    ):
        note_differences(app, held.fleet)
        report = run_apply(held, app.argv, app.output, stop, agree)
    _show_applied(app, report)


def _show_applied(app: App, report: ApplyReport) -> None:
    if app.output.as_json:
        app.output.result(report.to_json())
    else:
        nodes = len(report.status.rows)
        done = f"{len(report.results)} steps" if report.results else "nothing to load"
        app.output.text(f"release {report.status.release} is in force on {nodes} nodes; {done}")


def _show_nodes(app: App, status: ScriptsStatus) -> None:
    applied = status.registered
    nothing = "none" if status.has_registry else "nothing: the primary that knows does not answer"
    title = f"release {status.release}; the fleet says {f'{applied.release} {applied.state}' if applied else nothing}"
    rows = [
        [
            str(row["name"]),
            str(row["role"] or "down"),
            f"{row['host']}:{row['port']}",
            str(len(row["present"])) if isinstance(row["present"], list) and row["reachable"] else "unknown",
            ", ".join(row["missing"]) if isinstance(row["missing"], list) and row["missing"] else "-",
        ]
        for row in status.rows
    ]
    app.output.table(["NODE", "ROLE", "ADDRESS", "PRESENT", "MISSING"], rows, title=title)


def _show_drift(app: App, status: ScriptsStatus) -> None:
    for drift in status.drift:
        app.output.line(f"drift {drift.describe()}")
