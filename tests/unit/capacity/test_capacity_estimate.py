"""From samples to figures with a band; what is missing stays missing."""

import random
from dataclasses import replace

import pytest

from rlctl.capacity.layout.allocator import Allocator
from rlctl.capacity.measure.estimate import ShardSample, rows_of
from rlctl.capacity.measure.sampled import RuleName, SampledKey, SampledServer, name_of, slots_filled, true_bytes
from rlctl.capacity.measure.sampling import draw, spreads
from rlctl.capacity.request import ServerVersion
from rlctl.topology.model import EvictionPolicy
from tests.unit.capacity.asked import STATES

GCRA = RuleName(rule="api", algorithm="gcra", state=1)
LOG = RuleName(rule="log", algorithm="rolling_window", state=1)
OTHER = RuleName()
SERVER = SampledServer(
    version=ServerVersion.REDIS_7_0,
    allocator=Allocator.DEBIAN,
    policy=EvictionPolicy.NOEVICTION,
    keys=1_000,
    slots=None,
    states=STATES,
)


def key(name: RuleName = GCRA, usage: int = 88, *, has_ttl: bool = True) -> SampledKey:
    return SampledKey(key_length=30, name=name, memory_usage=usage, encoding="int", has_ttl=has_ttl, size=16)


def shard(keys: list[SampledKey], *, names: dict[RuleName, int], of: int = 1_000) -> ShardSample:
    return ShardSample(server=replace(SERVER, keys=of), names=names, keys=keys)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("rl:{ada}:api:gcra:1", GCRA),
        ("rl:{apikey%3A7}:log:rolling_window:1:60000", LOG),
        ("rl:{}:api:gcra:1", GCRA),
        ("rl:checkout:{ada}:api:gcra:1", GCRA),
        ("rl:checkout-2:{a}:log:rolling_window:1:60000", LOG),
        ("rl:Checkout:{ada}:api:gcra:1", OTHER),
        ("rl:checkout:search:{ada}:api:gcra:1", OTHER),
        ("rl::{ada}:api:gcra:1", OTHER),
        ("rl:{ada}:api:gcra:x", OTHER),
        ("rl:{ada}:api:gcra:" + "9" * 5000, OTHER),
        ("rl:{ada}:api:gcra:\u0661", OTHER),
        ("rl:{ada}:api:gcra:1\n", OTHER),
        ("rl:{ada}:api:unknown:1", OTHER),
        ("rl:{ada}:api", OTHER),
        ("rl:{ada", OTHER),
        ("rlctl:{scripts}", OTHER),
        ("anything", OTHER),
        ("", OTHER),
    ],
)
def test_whose_key_it_is_stands_in_its_name(text: str, name: RuleName) -> None:
    assert name_of(text) == name


def test_a_whole_scan_has_no_band() -> None:
    [row] = rows_of([shard([key()] * 100, names={GCRA: 100}, of=100)], is_complete=True)
    assert (row.keys.value, row.keys.error) == (100, 0)
    assert row.bytes is not None
    assert row.bytes.error == 0
    assert row.total_bytes == pytest.approx(100 * row.bytes.value, abs=1)


def test_shards_are_summed_by_their_keys() -> None:
    shards = [
        shard([key(usage=100)] * 10, names={GCRA: 10}, of=3_000),
        shard([key(usage=200)] * 10, names={GCRA: 10}, of=1_000),
    ]
    [row] = rows_of(shards, is_complete=True)
    assert row.keys.value == 4_000
    assert row.memory_usage == pytest.approx(125)


def test_a_missing_shard_leaves_no_total() -> None:
    [row] = rows_of([shard([key()], names={GCRA: 1})], is_complete=False)
    assert row.total_bytes is None
    assert row.to_json()["total_bytes"] is None
    assert row.bytes is not None


def test_a_server_without_a_formula_leaves_no_figure_but_its_own() -> None:
    unknown = ShardSample(server=replace(SERVER, version=None), names={GCRA: 2}, keys=[key(), key()])
    [row] = rows_of([unknown], is_complete=True)
    assert (row.bytes, row.predicted, row.total_bytes) == (None, None, None)
    assert row.memory_usage == 88


def test_keys_without_an_end_are_counted() -> None:
    keys = [key(), key(), key(has_ttl=False), key()]
    [row] = rows_of([shard(keys, names={GCRA: 4}, of=400)], is_complete=True)
    assert row.no_ttl == 100


def test_rules_come_by_name_and_strangers_last() -> None:
    keys = [key(LOG), key(OTHER), key(GCRA)]
    rows = rows_of([shard(keys, names={LOG: 1, OTHER: 1, GCRA: 1}, of=3)], is_complete=True)
    assert [row.name.rule for row in rows] == ["api", "log", None]
    assert rows[2].predicted is None


def test_the_band_holds_the_truth_about_95_times_in_100() -> None:
    chance = random.Random(4)  # noqa: S311  a seeded test
    sizes = [chance.choice([80, 120, 400, 900]) for _ in range(20_000)]
    truth = sum(sizes) / len(sizes)
    held = 0
    for _ in range(300):
        keys = [key(usage=size) for size in chance.sample(sizes, 200)]
        [row] = rows_of([shard(keys, names={GCRA: 200}, of=20_000)], is_complete=True)
        assert row.bytes is not None
        held += abs(row.memory_usage - truth) <= row.bytes.error
    assert 0.90 <= held / 300 <= 0.99


def test_counts_of_rules_have_a_band_that_holds() -> None:
    chance = random.Random(5)  # noqa: S311  likewise
    held = 0
    for _ in range(300):
        seen = sum(chance.random() < 0.2 for _ in range(1_000))
        names = {GCRA: seen, LOG: 1_000 - seen}
        row, _other = rows_of([shard([key(), key(LOG)], names=names, of=100_000)], is_complete=True)
        held += abs(row.keys.value - 20_000) <= row.keys.error
    assert 0.90 <= held / 300 <= 0.99


def test_keys_are_drawn_where_sizes_differ() -> None:
    pools = {GCRA: [f"a{at}" for at in range(500)], LOG: [f"b{at}" for at in range(500)]}
    weights = spreads(pools, [key(usage=80), key(usage=80), key(LOG, 100), key(LOG, 900)])
    chosen = draw(pools, weights, 100)
    assert len(set(chosen)) == 100
    assert sum(one.startswith("b") for one in chosen) == 100


def test_an_empty_pool_is_made_up_for_by_the_others() -> None:
    pools = {GCRA: ["a"], LOG: [f"b{at}" for at in range(10)]}
    assert sorted(draw(pools, {GCRA: 1.0, LOG: 1.0}, 6)) == ["a", "b5", "b6", "b7", "b8", "b9"]
    assert draw({GCRA: []}, {GCRA: 1.0}, 5) == []


def test_identities_share_slots_so_fewer_are_filled_than_keys_would_fill() -> None:
    keys = [f"rl:{{user-{number}}}:{rule}:gcra:1" for number in range(1_000) for rule in "abcd"]
    server = replace(SERVER, version=ServerVersion.REDIS_8_0, keys=len(keys), slots=16_384)
    seen = slots_filled(keys, server)
    assert seen is not None
    assert 900 < seen <= 1_000
    # Half of the slots seen stand for the other half.
    assert slots_filled(keys[:2_000], server) == pytest.approx(seen, rel=0.05)
    assert slots_filled(keys, replace(server, slots=None)) is None
    assert slots_filled([], server) is None
    # One key each: what falls on slots at random fills no more of them than chance does.
    lonely = [f"k{number}" for number in range(4_000)]
    assert slots_filled(lonely, replace(server, keys=400_000)) == 16_384


def test_slots_that_are_empty_cost_nothing() -> None:
    server = replace(SERVER, version=ServerVersion.REDIS_8_0, keys=4_000, slots=16_384)
    few, many = (true_bytes(key(), replace(server, filled_slots=count)) for count in (1_000, 3_500))
    assert few is not None
    assert many is not None
    assert many - few > 2_500 * 2_600 / 4_000


@pytest.mark.parametrize(
    ("policy", "shared_bytes"), [(EvictionPolicy.VOLATILE_TTL, 16), (EvictionPolicy.ALLKEYS_LRU, 0), (None, 16)]
)
def test_a_small_integer_is_the_servers_own_unless_it_evicts_by_use(
    policy: EvictionPolicy | None, shared_bytes: int
) -> None:
    small, large = replace(key(OTHER), size=4), replace(key(OTHER), size=5)
    server = replace(SERVER, policy=policy)
    found = [true_bytes(one, server) for one in (large, small)]
    assert found[0] is not None
    assert found[1] == found[0] - shared_bytes
