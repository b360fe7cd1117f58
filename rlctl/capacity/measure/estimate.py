"""Estimates the figures of each rule from samples of the shards, with a 95 % confidence interval. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance

from rlctl.capacity.measure.sampled import RuleName, SampledKey, SampledServer, predicted_bytes, true_bytes

_Z95 = 1.96
_Value = Callable[[SampledKey, SampledServer], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSample:
    """A sample of a shard: the number of key names of each rule, and some keys in detail."""

    server: SampledServer
    names: Mapping[RuleName, int]
    keys: Sequence[SampledKey]

    @property
    def looked_at(self) -> int:
        """The number of key names in the sample."""
        return sum(self.names.values())

    def count(self, name: RuleName) -> tuple[float, float]:
        """The estimated number of keys of a rule on this shard, and its variance."""
        seen, total, keys = self.names.get(name, 0), self.looked_at, self.server.keys
        if not total:
            return 0.0, 0.0
        share = seen / total
        return keys * share, keys**2 * share * (1 - share) / total * _unseen(total, keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean and half the width of its 95 % confidence interval."""

    value: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRow:
    """The figures of a rule in the whole fleet; `total_bytes` is None if a shard was not read."""

    name: RuleName
    sampled: int
    keys: Estimate
    key_length: float
    encodings: Mapping[str, float]
    no_ttl: int
    memory_usage: float
    bytes: Estimate | None
    predicted: float | None
    total_bytes: int | None

    def to_json(self) -> dict[str, object]:
        return {
            "rule": self.name.rule,
            "algorithm": self.name.algorithm,
            "sampled": self.sampled,
            "keys": round(self.keys.value),
            "keys_error": self.keys.error,
            "key_length": self.key_length,
            "encodings": dict(self.encodings),
            "no_ttl": self.no_ttl,
            "memory_usage": self.memory_usage,
            "bytes_per_user": self.bytes.value if self.bytes else None,
            "bytes_error": self.bytes.error if self.bytes else None,
            "predicted_bytes_per_user": self.predicted,
            "total_bytes": self.total_bytes,
        }


def rows_of(shards: Sequence[ShardSample], *, is_complete: bool) -> tuple[RuleRow, ...]:
    """Return a row for each rule in the samples, sorted by name; the row of keys without a rule comes last."""
    names = {name for shard in shards for name in shard.names}
    ordered = sorted(
        names, key=lambda name: (name.rule is None, name.rule or "", name.algorithm or "", name.state or 0)
    )
    rows = (_row(name, shards, is_complete=is_complete) for name in ordered)
    return tuple(row for row in rows if row is not None)


def _row(name: RuleName, shards: Sequence[ShardSample], *, is_complete: bool) -> RuleRow | None:
    keys = [(one, shard) for shard in shards for one in shard.keys if one.name == name]
    if not keys:
        return None
    counts = [shard.count(name) for shard in shards]
    total = sum(count for count, _variance in counts)
    size = _mean(name, shards, true_bytes)
    encodings = Counter(one.encoding for one, _shard in keys)
    without_end = sum(not one.has_ttl for one, _shard in keys) / len(keys)
    predicted = _mean(name, shards, predicted_bytes)
    raw = _mean(name, shards, lambda one, _place: one.memory_usage)
    assert raw is not None
    return RuleRow(
        name=name,
        sampled=len(keys),
        keys=Estimate(value=total, error=_Z95 * sqrt(sum(variance for _count, variance in counts))),
        key_length=fmean(one.key_length for one, _shard in keys),
        encodings={encoding: count / len(keys) for encoding, count in sorted(encodings.items())},
        no_ttl=round(total * without_end),
        memory_usage=raw.value,
        bytes=size,
        predicted=predicted.value if predicted else None,
        total_bytes=round(total * size.value) if size and is_complete else None,
    )


def _mean(name: RuleName, shards: Sequence[ShardSample], value: _Value) -> Estimate | None:
    """The mean over the fleet, with shards weighted by their keys; None if `value` returns None for a key."""
    strata = []
    for shard in shards:
        found = [value(one, shard.server) for one in shard.keys if one.name == name]
        values = [one for one in found if one is not None]
        if len(values) < len(found):
            return None
        if values:
            count = max(shard.count(name)[0], float(len(values)))
            spread = variance(values) / len(values) if len(values) > 1 else 0.0
            strata.append((count, fmean(values), spread * _unseen(len(values), count)))
    if not strata:
        return None
    weight = sum(count for count, _value, _spread in strata)
    mean = sum(count * one for count, one, _spread in strata) / weight
    error = _Z95 * sqrt(sum((count / weight) ** 2 * spread for count, _value, spread in strata))
    return Estimate(value=mean, error=error)


def _unseen(sampled: float, of: float) -> float:
    """Finite population correction: the part of `of` that is not in the sample."""
    return max(0.0, 1 - sampled / of) if of else 0.0
