"""rlctl capacity plan: computes memory and shards for users and rules, and writes them into a topology."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rlctl.capacity.batch import read_mix
from rlctl.capacity.plan import MOST_SHARDS, CapacityPlan, Mix, Reserve, on_shards
from rlctl.capacity.plan import plan as make_plan
from rlctl.capacity.report import plan_page
from rlctl.capacity.request import MemoryRequest
from rlctl.capacity.rules_file import ASSUMED_VALUE_BYTES, parse_users, read_rules
from rlctl.cli.app import App, with_app
from rlctl.cli.capacity.options import (
    html_option,
    node_options,
    read_lines,
    request_parser,
    typed_options,
    with_options,
    write_page,
)
from rlctl.cli.capacity.tables import show_plan
from rlctl.cli.help import HelpCommand
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
    """An option value: a number from `least` to 100. A larger number is likely a typing error, so it is refused."""

    name = "number"

    def __init__(self, least: float) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not self._least <= number <= 100:
            self.fail(f"{value!r} is not a number from {self._least:g} to 100", param, ctx)
        return number


@click.command(cls=HelpCommand)
@click.option(
    "--mix",
    "mix_file",
    metavar="FILE",
    help="File as for `predict --batch`: one rule a line, with the users of the whole fleet.",
)
@click.option("--rules", "rules_file", metavar="FILE", help="Rules file; needs --users.")
@click.option(
    "--users",
    "users",
    multiple=True,
    metavar="RULE=N",
    help="Number of users of a rule in --rules; repeat for each rule.",
)
@click.option("--shards", type=click.IntRange(1, MOST_SHARDS), help="Number of primaries [as few as fit into --ram].")
@click.option("--ram", type=Size(), help="Memory of one server [what the plan needs].")
@click.option("--replicas", type=click.IntRange(0, 100), default=1, show_default=True, help="Replicas of each primary.")
@click.option("--fragmentation", type=_Share(1), default=1.1, show_default=True, help="RSS divided by used memory.")
@click.option(
    "--stale", type=_Share(0), default=0.0, show_default=True, help="Expired but not yet deleted keys per live key."
)
@click.option("--backlog", type=Size(), default="1mb", show_default=True, help="repl-backlog-size of a server.")
@click.option(
    "--clients", type=click.IntRange(0, 10_000_000), default=1_000, show_default=True, help="Connections to a server."
)
@click.option("--client-bytes", type=Size(), default="40kb", show_default=True, help="Buffers of one connection.")
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    help="Topology file to write shards and maxmemory into, unless deploy would refuse the change.",
)
@click.option("--yes", is_flag=True, help="Agree to --write in advance.")
@with_options(*node_options, html_option)
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
    """Compute memory and shards for a number of users.

    Shows maxmemory, and the memory of each server with all shards and after the loss of one shard. Exits with 10 if the
    users do not fit.

    Examples:
      echo '{"algorithm": "gcra", "users": 10000000}' > mix.jsonl
      rlctl capacity plan --mix mix.jsonl --ram 4gb --cluster
      rlctl capacity plan --mix mix.jsonl --shards 6 --write topology.yaml
    """
    if shards is None and ram is None:
        raise UsageFault(
            "--shards or --ram is missing", hint="give one to compute the other, or both to check whether the users fit"
        )
    chosen = typed_options(options)
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
        raise UsageFault("exactly one of --mix and --rules is needed", hint="see `rlctl capacity plan --help`")
    if users and rules_file is None:
        raise UsageFault("--users RULE=N needs --rules", hint="with --mix, give `users` in each line")
    parser = request_parser()
    requests: tuple[MemoryRequest, ...]
    if mix_file is not None:
        requests = read_mix(read_lines(mix_file), mix_file, parser, options)
    else:
        assert rules_file is not None
        app.output.note(f"each placeholder of a key template counts as {ASSUMED_VALUE_BYTES} bytes")
        text = read_lines(rules_file).encode("utf-8")
        requests = read_rules(text, rules_file, parse_users(users), parser, options)
    servers = {(one.server, one.allocator, one.slots is None) for one in requests}
    if len(servers) > 1:
        raise UsageFault(
            "a plan needs servers of one kind, but the lines give several kinds",
            hint="give --server, --allocator and --cluster as options, not in lines",
        )
    return Mix(requests=requests, states=parser.states)


def _write(app: App, path: Path, found: CapacityPlan, *, yes: bool) -> None:
    topology = replace(app, file=path).topology()
    text = path.read_bytes().decode("utf-8")
    changes, wanted = _changes(topology, found)
    _check_deployable(app, path, wanted, found)
    changed = rewrite(text, str(path), changes, wanted)
    if changed == text:
        app.output.note(f"{path}: no change")
        return
    lines = difflib.unified_diff(text.splitlines(), changed.splitlines(), str(path), str(path), lineterm="")
    app.agree(f"{path}: write these changes?", yes=yes, about=lines)
    replace_text(path, text, changed)
    app.output.note(f"{path}: written; `rlctl deploy --dry-run` shows the changes to the fleet")


def _check_deployable(app: App, path: Path, wanted: Topology, found: CapacityPlan) -> None:
    """Raise Refused if deploy would refuse `wanted`. The hint shows what would fit on the deployed shards."""
    record = FleetRecord.load(app.home.fleet(wanted.name).record)
    refused = () if record is None else record.refusals(wanted)
    if record is None or not refused:
        return
    hint, deployed = refused[0].hint, record.topology.cluster.shards
    if record.topology.kind is wanted.kind is Kind.CLUSTER and found.shards != deployed:
        another = f"{found.shards} shards need another fleet: use a topology with another name"
        hint = "; ".join((*on_shards(found, deployed), another))
    raise Refused(f"{path}: not written, because deploy would refuse it: {summary(refused)}", hint=hint)


def _changes(topology: Topology, found: CapacityPlan) -> tuple[dict[tuple[str, str], str], Topology]:
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
