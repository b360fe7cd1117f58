"""The explanation of one identity: tier, canary bucket, key and count."""

from dataclasses import replace
from typing import Any

import pytest

from rlctl.errors import InvalidFile, NotFound, UsageFault
from rlctl.limits.bucket import bucket
from rlctl.limits.failures import InvalidLimit
from rlctl.limits.match import Template
from rlctl.rules.compile import compile_file
from rlctl.rules.explain import explain
from rlctl.rules.load import load_rules
from rlctl.topology.model import Security
from tests.unit.fleets import cluster, watched
from tests.unit.rules.documents import EVERY, EXAMPLE, RELEASE, revision
from tests.unit.rules.fleets import Fleet

ONE, ALL = revision(EXAMPLE, 1), revision(EVERY, 2)
TEMPLATE = "apikey:{api_key}"


def identity_of(api_key: str) -> str:
    return Template(TEMPLATE).identity({"api_key": api_key})


def asked(
    fleet: Fleet, rule_id: str, identity: str, tier: str | None = None, service: str | None = None
) -> dict[str, Any]:
    return explain(fleet.in_force(), rule_id, identity, tier, service)


def test_an_identity() -> None:
    found = asked(Fleet(ONE), "api-per-key", "k1", "free")
    drawn = bucket("api-per-key", identity_of("k1"))
    assert found["canary"] == {"percent": 10, "bucket": drawn, "in": drawn < 1000}
    assert {
        key: found[key] for key in ("schema", "rule", "revision", "identity", "template", "tier", "tier_known")
    } == {
        "schema": "rlctl.rules-explain/1",
        "rule": "api-per-key",
        "revision": 1,
        "identity": "k1",
        "template": TEMPLATE,
        "tier": "free",
        "tier_known": True,
    }
    assert found["values"] == {"limit": 100, "window_ms": 60_000}
    assert found["key"].startswith("rl:{apikey:k1}:api-per-key:sliding_counter:")
    assert (found["shadow"], found["class"], found["on_failure"], found["owner"]) == (False, "general", "open", None)
    assert (found["dimensions"], "service" in found) == ({"api_key": "k1", "tier": "free"}, False)
    assert found["script"]["version"] == ONE.rules.rules[0].script.version


@pytest.mark.parametrize(("tier", "is_known"), [(None, None), ("free", True), ("gold", False)])
def test_a_tier_is_known_or_not(tier: str | None, *, is_known: bool | None) -> None:
    assert asked(Fleet(ONE), "api-per-key", "k1", tier)["tier_known"] is is_known


@pytest.mark.parametrize("is_in", [True, False])
def test_an_identity_in_and_beside_the_canary(*, is_in: bool) -> None:
    names = (f"k{number}" for number in range(1000))
    identity = next(name for name in names if (bucket("api-per-key", identity_of(name)) < 1000) is is_in)
    found = asked(Fleet(ONE), "api-per-key", identity)
    assert (found["canary"]["in"], found["values"]["limit"]) == (is_in, 800 if is_in else 1000)


def test_without_a_canary_there_is_no_draw() -> None:
    found = asked(Fleet(ALL), "bucket", "u1")
    assert (found["canary"], found["owner"]) == (None, "payments")


@pytest.mark.parametrize("topology", [cluster(shards=5), watched()], ids=["cluster", "sentinel"])
def test_the_slot_of_a_key(topology: Any) -> None:
    slot = asked(Fleet(ALL, topology=topology), "bucket", "u1")["slot"]
    assert (slot is None) is (topology == watched())
    assert slot is None or 0 <= slot < 16_384


def test_a_shadow_has_a_key_of_its_own() -> None:
    found = asked(Fleet(ALL), "counter", "u1")
    assert (found["shadow"], found["key"].endswith(":shadow")) == (True, True)


@pytest.mark.parametrize(
    ("rule_id", "identity", "error", "text"),
    [
        ("bucket", "", InvalidLimit, "an identity must not be empty"),
        ("other", "u1", NotFound, "other"),
        ("meter", "u1", UsageFault, "counts by more than one value"),
        ("meter", "user=u1,endpoint=/c", NotFound, "rule meter does not concern user=u1,endpoint=/c"),
    ],
)
def test_identities_that_lead_nowhere(rule_id: str, identity: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        asked(Fleet(ALL), rule_id, identity)


def test_the_hint_says_what_a_rule_counts_by() -> None:
    with pytest.raises(NotFound) as caught:
        asked(Fleet(ALL), "meter", "user=u1,endpoint=/c")
    assert caught.value.hint == "the rule counts by {user}:{endpoint}, where endpoint is /a or /b*"


def test_the_key_of_a_service() -> None:
    topology = replace(cluster(shards=5), security=Security(services=("checkout",)))
    fleet = Fleet(ALL, topology=topology)
    found = asked(fleet, "bucket", "u1", service="checkout")
    assert (found["service"], found["key"].split(":")[:2]) == ("checkout", ["rl", "checkout"])
    with pytest.raises(NotFound, match="has no payments"):
        asked(fleet, "bucket", "u1", service="payments")


def test_rules_that_no_release_has_a_script_for() -> None:
    file = load_rules(EXAMPLE.encode(), "rules.yaml")
    without = replace(RELEASE, scripts=tuple(one for one in RELEASE.scripts if one.name != "sliding_counter"))
    with pytest.raises(InvalidFile, match=rf"^rules\.yaml:3: release {RELEASE.version} has no script sliding_counter$"):
        compile_file(file, without)
