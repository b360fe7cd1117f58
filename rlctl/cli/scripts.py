"""rlctl scripts: loads and checks the Lua limiter scripts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpGroup
from rlctl.cli.opened import note_differences, opened
from rlctl.cli.options import Duration
from rlctl.errors import (
    AccessDenied,
    CheckFailed,
    Exit,
    NotFound,
    PartlyDone,
    Refused,
    RlctlError,
    TimedOut,
    Unreachable,
)
from rlctl.execute.locking import LockWait, lock_fleet
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

# Failures after which `watch` continues, such as a node that is down, a fleet that stays locked, or a full server.
_TEMPORARY = (PartlyDone, CheckFailed, Unreachable, TimedOut, Refused)


@click.group(cls=HelpGroup)
def scripts() -> None:
    """Load, check and watch the Lua limiter scripts of the fleet.

    Examples:
      rlctl scripts list -o json
      rlctl scripts status
      rlctl scripts apply --yes
    """


def _release_options(command: Any) -> Any:  # noqa: ANN401  click's decorators are untyped
    command = click.option(
        "--lua", type=click.Path(path_type=Path), help="Folder with a manifest.yaml [the shipped one]."
    )(command)
    return click.option("--release", "version", help="Release of the manifest, such as 1.0.0 [the newest].")(command)


@scripts.command("list")
@_release_options
@with_app
def list_(app: App, lua: Path | None, version: str | None) -> None:
    """List the scripts of the release; needs no fleet.

    Examples:
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
    """Show which scripts `apply` would load on each node.

    Exits with 10 if a script would be loaded or the fleet has drift.

    Examples:
      rlctl scripts plan
      rlctl scripts plan --release 1.0.0
    """
    return _plan(app, load_release(lua, version))


@scripts.command()
@_release_options
@click.option("--yes", is_flag=True, help="Agree in advance.")
@click.option(
    "--dry-run", is_flag=True, help="Show what would be loaded and load nothing; exit 10 if there are changes."
)
@click.option("--wait", is_flag=True, help="Wait for another operation to end, at most --timeout if given.")
@with_app
def apply(app: App, lua: Path | None, version: str | None, yes: bool, dry_run: bool, wait: bool) -> int:
    """Load the release on every node and check it.

    Loads the scripts on replicas before primaries. Then checks that every node has the scripts, and makes one decision
    on every shard.

    Examples:
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
    """Show which scripts every node has loaded; exit 10 on drift.

    Examples:
      rlctl scripts status
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
    """Run the examples of the release on every shard.

    Runs them as user limiter and compares each reply with the expected reply. Exits with 15 if a reply differs or a
    shard has no primary.

    Examples:
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
            f"shards without a primary: {unserved}; {len(wrong)} of the {len(verdicts)} checks on other shards failed",
            hint="`rlctl status` shows the state of the fleet",
        )
    if wrong:
        raise CheckFailed(
            f"{len(wrong)} of {len(verdicts)} checks failed", hint="`rlctl scripts status` shows what is loaded"
        )


@scripts.command()
@click.option("--to", "wanted", help="Release to return to [the one applied before].")
@click.option("--lua", type=click.Path(path_type=Path), help="Folder with a manifest.yaml [the shipped one].")
@click.option("--yes", is_flag=True, help="Agree in advance.")
@with_app
def rollback(app: App, wanted: str | None, lua: Path | None, yes: bool) -> None:
    """Put an earlier release in force again.

    The scripts of the current release stay loaded, so services can use either release.

    Examples:
      rlctl scripts rollback --yes
      rlctl scripts rollback --to 1.0.0
    """
    topology = app.topology()
    with opened(app) as fleet:
        applied = [str(entry["release"]) for entry in fleet_history(fleet) if entry.get("state") == "applied"]
    earlier = [version for version in applied[1:] if version != applied[0]]
    version = wanted or next(iter(earlier), None)
    if version is None:
        raise NotFound(
            f"fleet {topology.name} has had no earlier release", hint="give a release of the manifest with --to"
        )
    _apply(app, load_release(lua, version), StopFlag(), yes=yes, wait=False)


@scripts.command()
@with_app
def history(app: App) -> None:
    """List the releases that were applied to the fleet.

    The fleet stores the list, so it includes releases that other machines applied.

    Examples:
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
@click.option("--interval", type=Duration(), default="5s", show_default=True, help="Time between two checks.")
@click.option("--for", "duration", type=Duration(), help="Time to watch [until interrupted].")
@with_app
def watch(app: App, lua: Path | None, version: str | None, interval: float, duration: float | None) -> None:
    """Load scripts again on nodes that lost them, until stopped.

    A node loses its scripts when it restarts or runs SCRIPT FLUSH.

    Examples:
      rlctl scripts watch
      rlctl scripts watch --interval 5s --for 1h
    """
    release = load_release(lua, version)
    clock, stop = SystemClock(), StopFlag()
    ends = None if duration is None else clock.monotonic() + duration
    temporary: tuple[type[RlctlError], ...] = _TEMPORARY
    while True:
        try:
            _load_missing(app, release, stop)
            # The fleet has accepted the secrets of this machine, so they are right. If a node refuses them later, the
            # watch continues.
            temporary = (*_TEMPORARY, AccessDenied)
        except temporary as failure:
            app.output.note(f"{failure.message}; next check in {interval:g} s")
        # After a stop signal during the loading of scripts, rlctl finished only the running step, and the watch ends.
        stop.check()
        if ends is not None and clock.monotonic() >= ends:
            return
        clock.sleep(interval)


def _load_missing(app: App, release: Release, stop: StopFlag) -> None:
    topology = app.topology()
    # Not `opened`: at each check of the watch, it would print why deploy would refuse the topology file.
    with open_fleet(topology, app.home, release) as fleet:
        lacking = script_plan(fleet, read_scripts(fleet).observed).steps
    if lacking:
        app.output.note(f"{topology.name}: scripts are missing on {len(lacking)} nodes")
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

    waiting = LockWait(wanted=wait, at_most_s=app.timeout_s)
    with (
        stop.armed(),
        lock_fleet(topology, app.home, "scripts apply", stop, app.output, waiting=waiting, release=release) as locked,
    ):
        note_differences(app, locked.fleet)
        report = run_apply(locked, app.argv, app.output, stop, agree)
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
    unknown = "none" if status.has_registry else "unknown, its primary does not answer"
    in_force = f"{applied.release} {applied.state}" if applied else unknown
    title = f"release {status.release}; in the fleet: {in_force}"
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
