"""Measurements during a ramp: errors and latency of EVALSHA, and the share of canary identities with no units left."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlctl.limiter.core.calls import script_arguments
from rlctl.limits.algorithms import ALGORITHMS, Concurrent
from rlctl.limits.bucket import takes_part
from rlctl.limits.keys import encode, key_end
from rlctl.limits.match import Template
from rlctl.limits.rule import Rule
from rlctl.observe.info import ServerInfo
from rlctl.observe.parse import required
from rlctl.operations.script_check import serving
from rlctl.rules.conditions import Measurements, Signal, counts_by_class, p99_ms
from rlctl.rules.in_force import RulesInForce
from rlctl.services import split_key
from rlctl.system.redis import NodeLink
from rlctl.topology.nodes import data_nodes

# The most that a measurement reads from each primary, so that measurements are cheap on a fleet with millions of keys.
_SCANS = 10
_SCAN_COUNT = 500
_SAMPLE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCounters:
    """EVALSHA calls of one server since it started; the histogram is in us."""

    calls: int = 0
    failed: int = 0
    histogram: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCounters:
    """Counters of each primary by its run id; a server that restarts gets a new id and counts from 0."""

    servers: Mapping[str, ServerCounters]

    def has_any_of(self, before: "FleetCounters") -> bool:
        """Whether a server of `before` is still among the primaries."""
        return not self.servers.keys().isdisjoint(before.servers)

    def joined(self, later: "FleetCounters") -> "FleetCounters":
        """Add the counters of new primaries in `later`, so that their earlier calls do not count for the ramp."""
        return FleetCounters(servers={**later.servers, **self.servers})

    def since(self, before: "FleetCounters") -> Measurements:
        """Error share and p99 since `before`, over the servers in both snapshots; None without calls."""
        both = [(now, before.servers[name]) for name, now in self.servers.items() if name in before.servers]
        calls = sum(now.calls - then.calls for now, then in both)
        failed = sum(now.failed - then.failed for now, then in both)
        between: Counter[int] = Counter()
        for now, then in both:
            between.update(now.histogram)
            between.subtract(then.histogram)
        return {Signal.ERRORS: failed / calls if calls > 0 else None, Signal.P99: p99_ms(between)}


def read_counters(now: RulesInForce) -> FleetCounters:
    """Read the EVALSHA counters of all primaries."""
    return FleetCounters(servers=dict(map(_served, _primaries(now))))


def _served(link: NodeLink) -> tuple[str, ServerCounters]:
    # All replies come over one connection, so all are from the same server process.
    run_id = required(ServerInfo(link.call("INFO", "server")).run_id, "run_id")
    stats = ServerInfo(link.call("INFO", "commandstats")).command("evalsha")
    return run_id, ServerCounters(
        calls=stats.calls + stats.rejected,
        failed=stats.failed + stats.rejected,
        histogram=Counter(_histogram(link.call("LATENCY", "HISTOGRAM", "evalsha"))),
    )


def denied_share(now: RulesInForce, rule: Rule) -> float | None:
    """The share of sampled canary identities with no units left; None if no identity is counted yet."""
    found = [is_out for link in _primaries(now) for is_out in _sample(link, rule)]
    return sum(found) / len(found) if found else None


def _primaries(now: RulesInForce) -> list[NodeLink]:
    names = {node.name for node in serving(now.fleet, now.observed)}
    return [now.fleet.connector.link(spec) for spec in data_nodes(now.fleet.topology) if spec.name in names]


def _histogram(reply: list[object]) -> dict[int, int]:
    for name, about in zip(reply[::2], reply[1::2], strict=True):
        if name == "evalsha" and isinstance(about, list):
            classes = about[about.index("histogram_usec") + 1]
            return counts_by_class(dict(zip(classes[::2], classes[1::2], strict=True)))
    return {}


def _sample(link: NodeLink, rule: Rule) -> list[bool]:
    """For each sampled canary identity on one primary, whether no units are left. Consumes no units."""
    definition, canary = rule.definition, rule.definition.canary
    if canary is None:
        return []
    algorithm = ALGORITHMS[definition.algorithm](**rule.arguments[None, True])
    end = key_end(algorithm, rule.id, rule.script.state).decode() + (":shadow" if definition.shadow else "")
    templates = [Template(text) for text in definition.keys]
    keys = [key for key in _scan(link, end) if _is_inside(rule.id, key, end, templates, canary.share)][:_SAMPLE]
    peek = {"verb": "peek", "request_id": ""} if isinstance(algorithm, Concurrent) else {"cost": 0}
    arguments = script_arguments(rule.script, {**algorithm.arguments(), **peek})
    replies = link.pipeline([("EVALSHA", rule.script.sha1, 1, key, *arguments) for key in keys]) if keys else []
    return [reply[2] == 0 for reply in replies if isinstance(reply, list)]


def _scan(link: NodeLink, end: str) -> list[str]:
    cursor, found = "0", []
    for _ in range(_SCANS):
        cursor, keys = link.call("SCAN", cursor, "MATCH", f"rl:*{{*{end}", "COUNT", _SCAN_COUNT)
        found += keys
        if cursor == "0":
            break
    return found


def _is_inside(rule_id: str, key: str, end: str, templates: list[Template], share: int) -> bool:
    parts = split_key(key)
    if parts is None:
        return False
    tag = parts[1][: -len(end)]
    for template in templates:
        dimensions = template.read(tag)
        if dimensions is not None and template.fill(dimensions, encode) == tag:
            return takes_part(rule_id, template.identity(dimensions), share)
    return False
