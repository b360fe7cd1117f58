"""Warnings about a rule set: valid but unwise settings, and changes that give identities a fresh quota. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rlctl.files.units import format_duration
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.limits.bucket import WHOLE
from rlctl.limits.match import PLACE
from rlctl.limits.rule import Definition, Parameters, Rule, RuleClass, RuleSet, percent

_FEW = 10
_LISTPACK = 128
# An assumption, because rlctl does not know the real time-outs of services.
SERVICE_TIMEOUT_MS = 10_000
_PER_MILLE = 1000
_SMALL_COUNTER = (
    "limit {limit}: a sliding counter is coarse below {few} (limit 1 admits one request in up to two windows); "
    "rolling_window is exact"
)
_LONG_LOG = (
    "limit {limit}: above {most} entries, each entry takes five times the memory; rolling_ring takes 4 bytes an entry"
)
_SHORT_LEASE = (
    "lease {lease}: a request that runs longer than its lease is no longer counted; set a lease longer than the "
    "service's time-out (assumed: {timeout}), or renew it"
)
_ROUNDED = "{rate} is one call every {spacing} us, rounded up by {percent} %, so the rule admits fewer calls"
_FRESH = "counts on a new key, because its {what} changes: one fresh quota for {whom}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A warning about one rule."""

    rule: str
    kind: str
    text: str

    def to_json(self) -> dict[str, str]:
        return {"rule": self.rule, "kind": self.kind, "text": self.text}


def advise(rules: RuleSet) -> tuple[Advice, ...]:
    """Warnings about settings, in the order of the rules; at most one of each kind for a rule."""
    found: dict[tuple[str, str], Advice] = {}
    for rule in rules.rules:
        for kind, text in _about(rule.definition):
            found.setdefault((rule.id, kind), Advice(rule=rule.id, kind=kind, text=text))
    return tuple(found.values())


def fresh_quotas(before: RuleSet | None, after: RuleSet) -> tuple[Advice, ...]:
    """Warnings for rules whose key changes: their identities start with a full quota on the new key."""
    found = []
    for rule in after.rules:
        old = before.rule(rule.id) if before is not None else None
        text = _fresh(old, rule) if old is not None else ""
        if text:
            found.append(Advice(rule=rule.id, kind="fresh-quota", text=text))
    return tuple(found)


def _fresh(before: Rule, after: Rule) -> str:
    old, new = before.definition, after.definition
    # Templates that were added at the end count only identities that the rule did not count before. These templates
    # give no identity a fresh quota.
    if new.keys[: len(old.keys)] != old.keys:
        return _FRESH.format(what="key template", whom="all identities")
    edges = sorted({0, old.share, new.share, WHOLE})
    tiers = (None, *dict.fromkeys((*old.tiers, *new.tiers)))
    what: dict[str, None] = {}
    shares = dict.fromkeys(tiers, 0)
    for tier in tiers:
        for lowest, end in pairwise(edges):
            here, there = _key_parts(before, tier, lowest), _key_parts(after, tier, lowest)
            changed = [name for name, part in there.items() if part != here[name]]
            what.update(dict.fromkeys(changed))
            shares[tier] += end - lowest if changed else 0
    return _FRESH.format(what=", ".join(what), whom=_identities(shares)) if what else ""


def _key_parts(rule: Rule, tier: str | None, drawn: int) -> dict[str, object]:
    """The parts of the key that depend on the rule, for an identity of this tier and canary bucket."""
    definition = rule.definition
    values = rule.values(tier, drawn)
    return {
        "algorithm": definition.algorithm,
        "window": ALGORITHMS[definition.algorithm](**values).key_window_ms,
        "script state": rule.script.state,
        "shadow": definition.shadow,
    }


def _identities(shares: dict[str | None, int]) -> str:
    if len(set(shares.values())) == 1:
        share = next(iter(shares.values()))
        return "all identities" if share == WHOLE else f"{percent(share)} % of identities"
    some = [
        f"{percent(share)} % of identities {f'of tier {tier}' if tier else 'without a tier'}"
        for tier, share in shares.items()
        if share
    ]
    return ", ".join(some)


def _about(rule: Definition) -> Iterator[tuple[str, str]]:
    for tier, in_canary in rule.variants():
        yield from _numbers(rule.algorithm, rule.effective(tier, in_canary=in_canary))
    yield from _keys(rule)
    if rule.rule_class is RuleClass.SECURITY and rule.shadow:
        yield "security-shadow", "a rule of class security in shadow denies no request"
    if rule.algorithm == "concurrent" and rule.canary is not None and "lease_ms" in rule.canary.parameters:
        yield "canary-lease", "identities in the canary have another lease; services must renew within it"


def _numbers(algorithm: str, values: Parameters) -> Iterator[tuple[str, str]]:
    if algorithm == "sliding_counter" and 0 < values["limit"] < _FEW:
        yield "small-sliding-counter", _SMALL_COUNTER.format(limit=values["limit"], few=_FEW)
    if algorithm == "rolling_window" and values["limit"] > _LISTPACK:
        yield "long-rolling-window", _LONG_LOG.format(limit=values["limit"], most=_LISTPACK)
    if algorithm == "concurrent" and values["lease_ms"] < SERVICE_TIMEOUT_MS:
        lease, timeout = format_duration(values["lease_ms"]), format_duration(SERVICE_TIMEOUT_MS)
        yield "short-lease", _SHORT_LEASE.format(lease=lease, timeout=timeout)
    if algorithm == "gcra":
        yield from _rounding(values)


def _rounding(values: Parameters) -> Iterator[tuple[str, str]]:
    period_us = values["period_ms"] * 1000
    spacing = -(-period_us // values["rate"])
    excess = spacing * values["rate"] - period_us
    if excess * _PER_MILLE > period_us:
        rate = f"{values['rate']} in {format_duration(values['period_ms'])}"
        yield "gcra-rounding", _ROUNDED.format(rate=rate, spacing=spacing, percent=f"{100 * excess / period_us:.2g}")


def _keys(rule: Definition) -> Iterator[tuple[str, str]]:
    if any("}{" in key for key in rule.keys):
        yield "joined-places", "two places with nothing between them: `ab` and `c` share the limit of `a` and `bc`"
    shapes = [PLACE.sub("{}", key) for key in rule.keys]
    if len(set(shapes)) < len(shapes):
        yield "same-key", "two templates differ only in dimension names, so equal values share one limit"
