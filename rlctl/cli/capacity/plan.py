"""rlctl capacity plan: memory for users and rules, and the topology that gives it."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rlctl.capacity.batch import read_mix
from rlctl.capacity.plan import MOST_SHARDS, Mix, Plan, Reserve, on_shards
from rlctl.capacity.plan import plan as make_plan
from rlctl.capacity.report import plan_page
from rlctl.capacity.request import Question
from rlctl.capacity.rules_file import ASSUMED_VALUE_BYTES, parse_users, read_rules
from rlctl.cli.app import App, with_app
from rlctl.cli.capacity.options import (
    asking,
    given,
    html_option,
    place_options,
    read_lines,
    with_options,
    write_page,
)
from rlctl.cli.capacity.tables import show_plan
from rlctl.cli.options import Size
from rlctl.errors import Exit, Refused, UsageFault
from rlctl.files.units import format_size
from rlctl.state.record import FleetRecord
from rlctl.system.files import replace_text
from rlctl.topology.change import summary
from rlctl.topology.model import Kind, Topology
from rlctl.topology.rewrite import rewrite

LEAST_CLUSTER_SHARDS = 3


class _Share(click.ParamType[float]):
    """A number from a least one on; a plan of more than a hundredfold is a slip."""

    name = "number"

    def __init__(self, least: float) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """A plain number."""
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not self._least <= number <= 100:
            self.fail(f"{value!r} is not a number from {self._least:g} to 100", param, ctx)
        return number


@click.command()
@click.option("--mix", "mix_file", metavar="FILE", help="One rule a line as in --batch, users of the whole fleet.")
@click.option("--rules", "rules_file", metavar="FILE", help="A rules file; --users says how many of each.")
@click.option("--users", "users", multiple=True, metavar="RULE=N", help="With --rules; for every rule.")
@click.option("--shards", type=click.IntRange(1, MOST_SHARDS), help="Primaries [as few as fit into --ram].")
@click.option("--ram", type=Size(), help="Memory of one server [what is needed].")
@click.option("--replicas", type=click.IntRange(0, 100), default=1, show_default=True, help="Of each primary.")
@click.option("--fragmentation", type=_Share(1), default=1.1, show_default=True, help="RSS against used memory.")
@click.option("--stale", type=_Share(0), default=0.0, show_default=True, help="Expired keys that are still there.")
@click.option("--backlog", type=Size(), default="1mb", show_default=True, help="repl-backlog-size.")
@click.option("--clients", type=click.IntRange(0, 10_000_000), default=1_000, show_default=True, help="Connections.")
@click.option("--client-bytes", type=Size(), default="40kb", show_default=True, help="Buffers of each.")
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    help="Write it into this topology, unless deploy would refuse.",
)
@click.option("--yes", is_flag=True, help="Agree to --write in advance.")
@with_options(*place_options, html_option)
@with_app
def plan(
    app: App,
    mix_file: str | None,
    rules_file: str | None,
    users: tuple[str, ...],
    shards: int | None,
    ram: int | None,
    replicas: int,
    fragmentation: float,
    stale: float,
    backlog: int,
    clients: int,
    client_bytes: int,
    write: Path | None,
    yes: bool,
    html: Path | None,
    **options: Any,  # noqa: ANN401
) -> int:
    """From users to memory: each shard, after losing one, maxmemory; exit 10 when it does not fit.

    \b
    echo '{"algorithm": "sliding_counter", "users": 10000000}' | rlctl capacity plan --mix - --ram 4gb --cluster
    rlctl capacity plan --mix mix.jsonl --shards 6 --write topology.yaml
    """
    if shards is None and ram is None:
        raise UsageFault(
            "--shards or --ram is missing", hint="give one to learn the other, or both to see whether it fits"
        )
    chosen = given(options)
    if write is not None and replace(app, file=write).topology().kind is Kind.CLUSTER:
        chosen["cluster"] = True
    mix = _mix(app, mix_file, rules_file, users, chosen)
    reserve = Reserve(
        replicas=replicas,
        fragmentation=fragmentation,
        stale=stale,
        backlog_bytes=backlog,
        clients=clients,
        client_bytes=client_bytes,
    )
    found = make_plan(mix, reserve, shards=shards, ram=ram, least_shards=LEAST_CLUSTER_SHARDS if mix.has_slots else 1)
    write_page(app, html, lambda: plan_page(found))
    if app.output.as_json:
        app.output.result(found.to_json())
    else:
        show_plan(app.output, found)
    if found.fits is False:
        return Exit.CHANGES
    if write is not None:
        _write(app, write, found, yes=yes)
    return Exit.OK


def _mix(
    app: App, mix_file: str | None, rules_file: str | None, users: tuple[str, ...], options: dict[str, object]
) -> Mix:
    if (mix_file is None) == (rules_file is None):
        raise UsageFault("one of --mix and --rules says what there is to hold", hint="see `rlctl capacity plan --help`")
    if users and rules_file is None:
        raise UsageFault("--users RULE=N belongs to --rules", hint="in a --mix each line has its own users")
    asked = asking()
    questions: tuple[Question, ...]
    if mix_file is not None:
        questions = read_mix(read_lines(mix_file), mix_file, asked, options)
    else:
        assert rules_file is not None
        app.output.note(f"keys: each place in a template is taken for {ASSUMED_VALUE_BYTES} bytes")
        text = read_lines(rules_file).encode("utf-8")
        questions = read_rules(text, rules_file, parse_users(users), asked, options)
    servers = {(one.server, one.allocator, one.slots is None) for one in questions}
    if len(servers) > 1:
        raise UsageFault(
            "a plan is for servers of one kind", hint="give --server, --allocator, --cluster once, not by line"
        )
    return Mix(questions=questions, states=asked.states)


def _write(app: App, path: Path, found: Plan, *, yes: bool) -> None:
    topology = replace(app, file=path).topology()
    text = path.read_bytes().decode("utf-8")
    changes, wanted = _changes(topology, found)
    _check_deployable(app, path, wanted, found)
    changed = rewrite(text, str(path), changes, wanted)
    if changed == text:
        app.output.note(f"{path}: no change")
        return
    lines = difflib.unified_diff(text.splitlines(), changed.splitlines(), str(path), str(path), lineterm="")
    app.agree(f"{path}: write this?", yes=yes, about=lines)
    replace_text(path, text, changed)
    app.output.note(f"{path}: written; `rlctl deploy --dry-run` shows what it means for the fleet")


def _check_deployable(app: App, path: Path, wanted: Topology, found: Plan) -> None:
    """Refuse to write what deploy would then refuse, and say what is possible on the deployed shards."""
    record = FleetRecord.load(app.home.fleet(wanted.name).record)
    refused = () if record is None else record.refusals(wanted)
    if record is None or not refused:
        return
    hint, deployed = refused[0].hint, record.topology.cluster.shards
    if record.topology.kind is wanted.kind is Kind.CLUSTER and found.shards != deployed:
        another = f"{found.shards} shards need another fleet: write into a topology with another name"
        hint = "; ".join((*on_shards(found, deployed), another))
    raise Refused(f"{path}: not written, because deploy would refuse it: {summary(refused)}", hint=hint)


def _changes(topology: Topology, found: Plan) -> tuple[dict[tuple[str, str], str], Topology]:
    maxmemory = found.worst.maxmemory
    changes = {("memory", "maxmemory"): format_size(maxmemory)}
    wanted = replace(topology, memory=replace(topology.memory, maxmemory_bytes=maxmemory))
    if topology.kind is Kind.CLUSTER:
        if found.shards < LEAST_CLUSTER_SHARDS:
            raise Refused(
                f"a cluster has at least {LEAST_CLUSTER_SHARDS} shards, this plan has {found.shards}",
                hint=f"plan with --shards {LEAST_CLUSTER_SHARDS}",
            )
        changes["cluster", "shards"] = str(found.shards)
        return changes, replace(wanted, cluster=replace(topology.cluster, shards=found.shards))
    if found.shards != 1:
        raise Refused(
            f"{topology.name} is of kind {topology.kind}: it has one shard, this plan has {found.shards}",
            hint="plan with --shards 1, or write a topology of kind cluster",
        )
    return changes, wanted
