"""Made-up users for a calibration."""

from collections import Counter
from itertools import islice

import pytest
from redis.crc import key_slot

from rlctl.capacity.layout.listpack import Form
from rlctl.capacity.request import Algorithm
from rlctl.capacity.synthetic_users import calls_of, key_names, request_ids
from rlctl.errors import UsageFault
from tests.unit.capacity.asked import ask


@pytest.mark.parametrize("length", [5, 20, 40, 300])
def test_keys_are_different_and_of_the_length_asked_for(length: int) -> None:
    names = list(key_names(ask(algorithm="gcra", key_length=length), 10_000))
    assert len(set(names)) == 10_000
    assert {len(name) for name in names} == {length}


def test_keys_of_a_cluster_fall_on_its_slots_at_random() -> None:
    names = list(key_names(ask(algorithm="gcra", cluster=True, slots=50), 10_000))
    slots = Counter(key_slot(name.encode()) for name in names)
    assert set(slots) == set(range(50))
    assert max(slots.values()) < 300
    assert {len(name) for name in names} == {40}


@pytest.mark.parametrize(("length", "slots"), [(4, None), (10, 16_384)])
def test_a_key_too_short_for_its_users_is_refused(length: int, slots: int | None) -> None:
    given: dict[str, object] = {"algorithm": "gcra", "key_length": length}
    request = ask(**given, **({"cluster": True, "slots": slots} if slots else {}))
    with pytest.raises(UsageFault, match="are too few for 10000 different keys"):
        next(key_names(request, 10_000))


@pytest.mark.parametrize("form", ["ms", "us", "seq", "relative", "float", "text:2", "text:36"])
def test_request_ids_are_different_and_of_their_form(form: str) -> None:
    names = request_ids(Form(name=form), 200)
    assert len(set(names)) == 200
    runs = Form(name=form).runs(200)
    assert sorted(map(len, names)) == sorted(length for run in runs for length in [run.length] * run.count)
    assert all(name.isdecimal() for name in names) is (form in {"ms", "us", "seq", "relative"})


def test_ids_too_short_to_differ_are_refused() -> None:
    with pytest.raises(UsageFault, match="text:1 is too short for that many"):
        request_ids(Form(name="text:1"), 60)


@pytest.mark.parametrize("algorithm", Algorithm)
def test_calls_bring_a_user_to_the_limit(algorithm: Algorithm) -> None:
    calls = calls_of(ask(algorithm=algorithm.value, limit=7))
    assert len(calls) == (7 if algorithm is Algorithm.CONCURRENT else 1)
    assert all(7 in call for call in islice(calls, 3))
