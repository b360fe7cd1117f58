"""rlctl failover-drill: break a fleet on purpose, and say with numbers what was lost."""

from collections.abc import Sequence
from typing import Any

import click

from rlctl.cli.app import App, with_app
from rlctl.drills.library import find, flagships
from rlctl.drills.programme import Programme
from rlctl.errors import Exit
from rlctl.execute.stop import StopFlag
from rlctl.system.clock import SystemClock
from rlctl.topology.model import Kind

RUN_S = 90.0
# What a twin is like where no topology was written yet.
_PLAIN = "version: 1\nname: drill\nkind: {kind}\ntarget: local\n"
_EXITS = {"pass": Exit.OK, "fail": Exit.DRILL_FAILED, "inconclusive": Exit.INCONCLUSIVE}


class DrillGroup(click.Group):
    """Bare, it runs both flagships."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a verb, `run` is meant."""
        if not any(word in self.commands for word in args) and not {"-h", "--help"} & set(args):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DrillGroup)
def failover_drill() -> None:
    """Rehearse failovers on a throw-away twin of the fleet, and prove what they lose.

    \b
    rlctl failover-drill                       write loss and split brain
    rlctl failover-drill run pause --kind sentinel
    rlctl failover-drill list
    rlctl failover-drill show split-brain
    """


@failover_drill.command()
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option("--kind", type=click.Choice([one.value for one in Kind]), help="Kind of the twin [the topology's].")
@click.option("--stock-timers", is_flag=True, help="Keep the topology's timers; slower, and what production does.")
@with_app
def run(app: App, scenarios: Sequence[str], kind: str | None, stock_timers: bool) -> int:
    """Run scenarios; without a name both flagships, write-loss and split-brain.

    Exit 0 as expected, 14 not as expected or over budget, 16 inconclusive.
    """
    text, wanted = _topology(app, kind)
    files = [find(name) for name in scenarios] or list(flagships(wanted))
    programme = Programme(
        home=app.home,
        clock=SystemClock(),
        topology=text,
        kind=wanted,
        live=False,
        stock_timers=stock_timers,
        argv=app.argv,
    )
    stop = StopFlag()
    with stop.armed():
        runs = programme.run(files, app.output, stop)
    if app.output.as_json:
        app.output.result({"schema": "rlctl.failover-drill-run/1", "runs": runs})
    else:
        for one in runs:
            app.output.text(str(one["verdict"]))
    return worst(str(one["verdict"]) for one in runs)


def worst(verdicts: Any) -> int:  # noqa: ANN401
    """Inconclusive outranks fail: nothing was proven."""
    return max((_EXITS[verdict] for verdict in verdicts), default=Exit.OK)


def _topology(app: App, kind: str | None) -> tuple[str, Kind]:
    """The topology's text, or a plain one where a kind was named and there is no file."""
    if kind is not None and not app.file.exists() and not app.names_file:
        return _PLAIN.format(kind=kind), Kind(kind)
    topology = app.topology()
    return app.file.read_text(encoding="utf-8"), Kind(kind) if kind else topology.kind
