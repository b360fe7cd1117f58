"""What a fleet shows while a canary runs: errors and time of EVALSHA, and who in the canary has nothing left."""

from collections import Counter
from dataclasses import dataclass, field

from rlctl.limiter.algorithms import ALGORITHMS, Concurrent
from rlctl.limiter.calls import bind
from rlctl.limiter.keys import encode, key_end
from rlctl.observe import parse
from rlctl.rules.admin import InForce
from rlctl.rules.bucket import takes_part
from rlctl.rules.conditions import Seen, Signal, apart, p99_ms
from rlctl.rules.match import Template
from rlctl.rules.model import Rule
from rlctl.scripts.verify import serving
from rlctl.system.redis import NodeLink
from rlctl.topology.nodes import data_nodes

# Of each primary, so that looking stays cheap on a fleet with millions of keys.
_SCANS = 10
_SCAN_COUNT = 500
_SAMPLE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What all primaries served so far."""

    calls: int = 0
    failed: int = 0
    histogram: Counter[int] = field(default_factory=Counter)

    def since(self, before: "Totals") -> Seen:
        """What happened between two moments; None where nothing did."""
        calls, failed = self.calls - before.calls, self.failed - before.failed
        between = Counter({upper: count - before.histogram[upper] for upper, count in self.histogram.items()})
        return {Signal.ERRORS: failed / calls if calls > 0 else None, Signal.P99: p99_ms(between)}


def totals(now: InForce) -> Totals:
    """EVALSHA of every serving primary, from the server's own counters."""
    calls = failed = 0
    histogram: Counter[int] = Counter()
    for link in _primaries(now):
        figures = parse.info(link.call("INFO", "commandstats")).get("cmdstat_evalsha", "")
        counted = dict(pair.partition("=")[::2] for pair in figures.split(",") if pair)
        refused = int(counted.get("rejected_calls", 0))
        calls += int(counted.get("calls", 0)) + refused
        failed += int(counted.get("failed_calls", 0)) + refused
        histogram.update(_histogram(link.call("LATENCY", "HISTOGRAM", "evalsha")))
    return Totals(calls=calls, failed=failed, histogram=histogram)


def denied(now: InForce, rule: Rule) -> float | None:
    """The share of a sample of the canary's identities that have nothing left; None where there are none yet."""
    found = [is_out for link in _primaries(now) for is_out in _sample(link, rule)]
    return sum(found) / len(found) if found else None


def _primaries(now: InForce) -> list[NodeLink]:
    names = {node.name for node in serving(now.fleet, now.observed)}
    return [now.fleet.connector.link(spec) for spec in data_nodes(now.fleet.topology) if spec.name in names]


def _histogram(reply: list[object]) -> dict[int, int]:
    for name, about in zip(reply[::2], reply[1::2], strict=True):
        if name == "evalsha" and isinstance(about, list):
            classes = about[about.index("histogram_usec") + 1]
            return apart(dict(zip(classes[::2], classes[1::2], strict=True)))
    return {}


def _sample(link: NodeLink, rule: Rule) -> list[bool]:
    """Of the identities that one primary counts: whether each has nothing left. Looks cost nothing."""
    definition, canary = rule.definition, rule.definition.canary
    if canary is None:
        return []
    algorithm = ALGORITHMS[definition.algorithm](**rule.arguments[None, True])
    end = key_end(algorithm, rule.id, rule.script.state).decode() + (":shadow" if definition.shadow else "")
    templates = [Template(text) for text in definition.keys]
    keys = [key for key in _scan(link, end) if _is_inside(rule.id, key, end, templates, canary.share)][:_SAMPLE]
    look = {"verb": "peek", "request_id": ""} if isinstance(algorithm, Concurrent) else {"cost": 0}
    arguments = bind(rule.script, {**algorithm.arguments(), **look})
    replies = link.pipeline([("EVALSHA", rule.script.sha1, 1, key, *arguments) for key in keys]) if keys else []
    return [reply[2] == 0 for reply in replies if isinstance(reply, list)]


def _scan(link: NodeLink, end: str) -> list[str]:
    cursor, found = "0", []
    for _ in range(_SCANS):
        cursor, keys = link.call("SCAN", cursor, "MATCH", f"rl:{{*{end}", "COUNT", _SCAN_COUNT)
        found += keys
        if cursor == "0":
            break
    return found


def _is_inside(rule_id: str, key: str, end: str, templates: list[Template], share: int) -> bool:
    tag = key[len("rl:{") : -len(end)]
    for template in templates:
        dimensions = template.read(tag)
        if dimensions is not None and template.fill(dimensions, encode) == tag:
            return takes_part(rule_id, template.identity(dimensions), share)
    return False
