"""Finds rule changes that end or loosen enforcement, and the identities that they affect. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise

from rlctl.files.units import format_duration
from rlctl.limits.algorithms import ALGORITHMS, Algorithm, Concurrent, Costed, FixedWindow, Gcra, TokenBucket
from rlctl.limits.bucket import WHOLE
from rlctl.limits.match import ANY
from rlctl.limits.rule import Definition, Parameters, Rule, RuleClass, RuleSet, percent

_MOST_SHOWN = 5


class EndingKind(StrEnum):
    """How enforcement ends: the rule is removed, goes into shadow, or admits more."""

    REMOVED = "removed"
    SHADOW = "shadow"
    LOOSENED = "loosened"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """A limit change for one tier. It affects `share` of 10,000 identities; `after` is None if the limit is removed."""

    tier: str | None
    share: int
    before: Parameters
    after: Parameters | None

    def to_json(self) -> dict[str, object]:
        after = None if self.after is None else dict(self.after)
        return {"tier": self.tier, "percent": percent(self.share), "before": dict(self.before), "after": after}

    def describe(self) -> str:
        """Old and new parameters, and the identities they apply to."""
        concerned = [f"tier {self.tier}"] if self.tier is not None else []
        concerned += [f"{percent(self.share)} % of identities"] if self.share < WHOLE else []
        after = "no limit" if self.after is None else shown_values(self.after)
        return f"{shown_values(self.before)} -> {after}" + (f" ({', '.join(concerned)})" if concerned else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """An enforced rule that is removed, put in shadow or loosened. `reasons` are causes other than its parameters."""

    definition: Definition
    kind: EndingKind
    limits: tuple[LimitChange, ...]
    reasons: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line: the rule, the identities, old and new parameters."""
        rule = self.definition
        head = f"{rule.id} (class {rule.rule_class}) {_SAYS[self.kind]}, for {_identities(rule)}"
        more = len(self.limits) - _MOST_SHOWN
        shown = [one.describe() for one in self.limits[:_MOST_SHOWN]] + ([f"{more} more"] if more > 0 else [])
        return f"{head}: {'; '.join((*shown, *self.reasons))}"

    def to_json(self) -> dict[str, object]:
        rule = self.definition
        return {
            "rule": rule.id,
            "kind": self.kind,
            "class": rule.rule_class,
            "key": list(rule.keys),
            "match": {name: list(values) for name, values in rule.match.items()},
            "limits": [one.to_json() for one in self.limits],
            "reasons": list(self.reasons),
            "text": self.text,
        }


_SAYS: Mapping[EndingKind, str] = {
    EndingKind.REMOVED: "is removed and denies no request any more",
    EndingKind.SHADOW: "goes into shadow and denies no request any more",
    EndingKind.LOOSENED: "admits more",
}


def endings(before: RuleSet | None, after: RuleSet) -> tuple[Ending, ...]:
    """Enforced rules that are removed or go into shadow, and enforced rules of class security that admit more."""
    enforced = [rule for rule in (before.rules if before is not None else ()) if not rule.definition.shadow]
    found = (_ending(rule, after.rule(rule.id)) for rule in enforced)
    return tuple(one for one in found if one is not None)


def shown_values(values: Parameters) -> str:
    """Parameters as text, such as `limit 5, window 15m`; a `min_interval` of 0 is left out."""
    return ", ".join(
        f"{name.removesuffix('_ms')} {format_duration(value) if name.endswith('_ms') else value}"
        for name, value in values.items()
        if value or name != "min_interval_ms"
    )


def _ending(before: Rule, after: Rule | None) -> Ending | None:
    definition = before.definition
    if after is None or after.definition.shadow:
        kind = EndingKind.REMOVED if after is None else EndingKind.SHADOW
        return Ending(definition=definition, kind=kind, limits=tuple(_limits(before, None)))
    if definition.rule_class is not RuleClass.SECURITY:
        return None
    limits, reasons = tuple(_limits(before, after)), tuple(_reasons(definition, after.definition))
    if not limits and not reasons:
        return None
    return Ending(definition=definition, kind=EndingKind.LOOSENED, limits=limits, reasons=reasons)


def _limits(before: Rule, after: Rule | None) -> Iterator[LimitChange]:
    """Yield the limit changes of each tier.

    The changes cover the identities whose limit becomes looser; if `after` is None, they cover all identities.
    """
    tiers = (None, *dict.fromkeys((*before.definition.tiers, *(after.definition.tiers if after else ()))))
    edges = sorted({0, before.definition.share, after.definition.share if after else 0, WHOLE})
    for tier in tiers:
        found: dict[tuple[object, ...], LimitChange] = {}
        for lowest, end in pairwise(edges):
            old, new = before.values(tier, lowest), after.values(tier, lowest) if after is not None else None
            if after is not None and new is not None and not _admits_more(before, old, after, new):
                continue
            key = (tuple(old.items()), new and tuple(new.items()))
            share = end - lowest + (found[key].share if key in found else 0)
            found[key] = LimitChange(tier=tier, share=share, before=old, after=new)
        yield from found.values()


def _admits_more(before: Rule, old: Parameters, after: Rule, new: Parameters) -> bool:
    was, becomes = _algorithm(before, old), _algorithm(after, new)
    if becomes.limit == 0:
        return False
    if isinstance(was, Concurrent) or isinstance(becomes, Concurrent):
        both = isinstance(was, Concurrent) and isinstance(becomes, Concurrent)
        return not both or becomes.limit > was.limit or new["lease_ms"] < old["lease_ms"]
    if new.get("min_interval_ms", 0) < old.get("min_interval_ms", 0):
        return True
    # The new rule never admits more if it admits no more in one window of the old rule, and has no higher rate.
    span_ms = 0 if isinstance(was, TokenBucket | Gcra) else was.window_ms
    return _most(becomes, span_ms) > _most(was, span_ms) or _sustained(becomes) > _sustained(was)


def _algorithm(rule: Rule, values: Parameters) -> Algorithm:
    return ALGORITHMS[rule.definition.algorithm](**values)


def _sustained(algorithm: Costed) -> Fraction:
    if isinstance(algorithm, TokenBucket | Gcra):
        return Fraction(algorithm.rate, algorithm.period_ms)
    return Fraction(algorithm.limit, algorithm.window_ms)


def _most(algorithm: Costed, span_ms: int) -> int:
    """The most units admitted in any time span of this length; a span of 0 is a burst."""
    if isinstance(algorithm, TokenBucket | Gcra):
        return algorithm.limit + span_ms * algorithm.rate // algorithm.period_ms
    # A time span may begin in one fixed window and end in the next. The next window counts from 0, so the rule may
    # admit its limit once more.
    meeting = 1 if isinstance(algorithm, FixedWindow) else 0
    return algorithm.limit * (max(1, -(-span_ms // algorithm.window_ms)) + meeting)


def _reasons(before: Definition, after: Definition) -> Iterator[str]:
    if after.rule_class is not before.rule_class:
        yield f"class {before.rule_class} -> {after.rule_class}"
    if _fails_wider(before.on_failure, after.on_failure):
        yield f"on_failure {before.on_failure} -> {after.on_failure}"
    if after.keys[: len(before.keys)] != before.keys:
        yield f"key {' or '.join(before.keys)} -> {' or '.join(after.keys)}"
    for name, patterns in after.match.items():
        old = before.match.get(name)
        if old is None or not all(any(_covers(new, one) for new in patterns) for one in old):
            yield f"match {name}: {' or '.join(old or ('any',))} -> {' or '.join(patterns)}"


def _fails_wider(before: str, after: str) -> bool:
    """Whether the new failure policy admits more.

    `local:8` divides the limit by 8 and `local:4` divides it by 4, so `local:4` admits more.
    """
    (old, _, old_share), (new, _, new_share) = before.partition(":"), after.partition(":")
    if old == new == "local":
        return old_share != new_share and not (old_share and new_share and int(new_share) > int(old_share))
    order = ("closed", "local", "open")
    return order.index(new) > order.index(old)


def _covers(wider: str, pattern: str) -> bool:
    return wider == pattern or (wider.endswith(ANY) and pattern.startswith(wider[:-1]))


def _identities(rule: Definition) -> str:
    conditions = [f"{name} is {' or '.join(values)}" for name, values in rule.match.items()]
    return " or ".join(rule.keys) + (f" where {' and '.join(conditions)}" if conditions else "")
