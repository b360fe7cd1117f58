"""Tables of `rlctl capacity`."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rlctl.capacity.compare import EncodingComparison
from rlctl.capacity.measure.fleet import FleetMeasurement
from rlctl.capacity.plan import CapacityPlan, ShardMemory
from rlctl.capacity.predict import Prediction
from rlctl.capacity.published import Published
from rlctl.capacity.warnings import CapacityWarning
from rlctl.cli.output import Output

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB", "EB")
T = TypeVar("T")
_PARTS = ("key", "ttl", "tables", "value", "cluster")


def human(size_bytes: float) -> str:
    """Return a size such as `1.40 GB`, in powers of 1000 like the published figures."""
    amount, unit = float(size_bytes), 0
    while abs(amount) >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} B" if unit == 0 else f"{amount:.2f} {_UNITS[unit]}"


def show_prediction(output: Output, one: Prediction) -> None:
    """Show the published bytes per user, the real bytes per user, and the parts of the real figure."""
    request = one.request
    title = (
        f"{request.algorithm} ({request.encoding}), limit {request.limit}, keys of {request.key_length} bytes, "
        f"{request.users} users, {request.server}, {request.allocator} size classes"
    )
    parts = [f"{getattr(one.parts, name):.1f}" for name in _PARTS]
    head = ["CLAIMED B/USER", "REAL B/USER", "RATIO", *(name.upper() for name in _PARTS), "TOTAL"]
    row = [str(one.model_bytes_per_user), f"{one.bytes_per_user:.1f}", f"{one.ratio:.1f}x", *parts]
    output.table(head, [[*row, human(one.total_bytes)]], title=title)
    show_warnings(output, one.warnings)


def show_warnings(output: Output, warnings: Iterable[CapacityWarning]) -> None:
    for warn in warnings:
        output.line(f"warning {warn.code}: {warn.message}")


def show_published(output: Output, found: Published) -> None:
    """Show every published figure beside the real one."""
    rows = [
        [
            row.claim.source,
            row.claim.algorithm,
            str(row.claim.limit),
            row.claim.encoding,
            str(row.claim.bytes_per_user),
            f"{row.truth.bytes_per_user:.0f}",
            f"{row.ratio:.1f}x",
            str(row.claim.users),
            human(row.claim.total_bytes),
            human(row.truth.total_bytes),
        ]
        for row in found.rows
    ]
    head = ["SOURCE", "ALGORITHM", "LIMIT", "ENCODING", "CLAIMED B/USER", "REAL", "RATIO", "USERS", "CLAIMED", "REAL"]
    output.table(head, rows, title=f"published models against {found.server}, {found.allocator} size classes")
    flow = found.traffic
    output.line(
        f"gateway, as published: {flow['requests_per_s']} requests/s make {flow['operations_per_s']} operations/s, "
        f"{flow['bits_per_s'] / 1e6:g} Mbit/s, {flow['key_creations_per_s']} new keys/s; "
        f"needs shards from {flow['shard_from_requests_per_s']} requests/s on"
    )


def show_comparison(output: Output, rows: Sequence[EncodingComparison]) -> None:
    """Show the encodings, cheapest first. A dash stands for a time that was not measured."""
    first = rows[0].prediction.request
    table = [
        [
            row.prediction.request.encoding,
            f"{row.prediction.bytes_per_user:.1f}",
            f"{row.prediction.ratio:.1f}x",
            human(row.prediction.total_bytes),
            f"{row.cost.admit:g}" if row.cost else "-",
            f"{row.cost.reject:g}" if row.cost and row.cost.reject is not None else "-",
            "; ".join(row.gives_up) or "-",
        ]
        for row in rows
    ]
    title = f"{first.algorithm}, limit {first.limit}, {first.users} users, {first.server}; times are +-20 %"
    output.table(["ENCODING", "B/USER", "RATIO", "TOTAL", "US ADMIT", "US REJECT", "GIVES UP"], table, title=title)


def show_plan(output: Output, found: CapacityPlan) -> None:
    """Show the memory of a server by purpose, with all shards and after the loss of one shard."""
    lost = found.after_losing_one
    rows = [
        [name.replace("_", " "), _cell(found.per_shard, name), _cell(lost, name)] for name in found.per_shard.to_json()
    ]
    title = f"{found.shards} shards, {found.servers} servers, {found.mix.users} users"
    output.table(["EACH SERVER", "ALL SHARDS", "ONE SHARD LOST"], rows, title=title)
    output.line(f"maxmemory {found.worst.maxmemory // 2**20}mb, RAM of each server {human(found.ram)}")
    if found.fits is not None:
        output.line(f"fits: {'yes' if found.fits else 'NO'}; users that fit: {found.users_that_fit}")
    for change in found.changes:
        output.line(f"would fit: {change}")
    show_warnings(output, found.warnings)


def show_measured(output: Output, found: FleetMeasurement) -> None:
    """Show servers, rules with their error bands, and growth. A dash stands for an unknown figure."""
    nodes = [
        [
            node.status.name,
            node.status.role,
            str(node.status.shard),
            node.memory.version,
            str(node.memory.keys),
            human(node.memory.used_bytes),
            _maybe(node.memory.rss_bytes, human),
            _maybe(node.memory.fragmentation, "{:.2f}".format),
            human(node.memory.maxmemory_bytes) if node.memory.maxmemory_bytes else "-",
            _maybe(node.memory.headroom_bytes, human),
            _maybe(node.memory.stale_share, "{:.1%}".format),
        ]
        for node in found.nodes
    ]
    head = ["NODE", "ROLE", "SHARD", "SERVER", "KEYS", "USED", "RSS", "RSS/USED", "MAXMEMORY", "HEADROOM", "STALE"]
    output.table(head, nodes, title=f"{found.name}: {len(found.nodes)} servers read")
    for status in found.unreachable:
        output.line(f"warning unreachable: {status.name} on {status.host}:{status.port}")
    _show_rules(output, found)
    show_warnings(output, found.warnings)


def _show_rules(output: Output, found: FleetMeasurement) -> None:
    rows = [
        [
            row.name.rule or "(no rule)",
            row.name.algorithm or "-",
            str(row.sampled),
            f"{row.keys.value:.0f} +-{row.keys.error:.0f}",
            f"{row.key_length:.0f}",
            ", ".join(f"{name} {share:.0%}" for name, share in row.encodings.items()),
            str(row.no_ttl),
            f"{row.memory_usage:.1f}",
            _maybe(row.bytes, lambda one: f"{one.value:.1f} +-{one.error:.1f}"),
            _maybe(row.predicted, "{:.1f}".format),
            _maybe(row.total_bytes, human),
        ]
        for row in found.rows
    ]
    head = ["RULE", "ALGORITHM", "SAMPLED", "KEYS", "KEY B", "ENCODINGS", "NO TTL", "MEMORY USAGE", "REAL B/USER"]
    output.table([*head, "PREDICTED", "TOTAL"], rows, title="rules; +- is the 95 % band of the sample")
    flow = found.forecast
    if flow is None:
        output.line("growth: unknown")
        return
    full = "not at this rate" if flow.full_in_s is None else f"in {human_time(flow.full_in_s)}"
    output.line(f"growth {human(flow.bytes_per_s)}/s (from {flow.source}); the first shard is full {full}")


def human_time(seconds: float) -> str:
    """Return a rounded duration such as `3.2 days`."""
    for unit, size in (("years", 31_557_600), ("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def _maybe(value: T | None, show: Callable[[T], str]) -> str:
    return "-" if value is None else show(value)


def _cell(shard: ShardMemory | None, name: str) -> str:
    if shard is None:
        return "-"
    value = shard.to_json()[name]
    return str(value) if name == "users" else human(value)
