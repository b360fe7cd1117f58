from pathlib import Path

import pytest

from tests import rotation
from tests.local import test_drill_scenarios as drills

TESTS = Path(rotation.__file__).parent
NUMBERS = (0, 1, 7, 2**31)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("variants", [[], ["a"], ["a", "b"], list("abcde")])
def test_two_numbers_in_a_row_have_all_variants(number: int, variants: list[str]) -> None:
    halves = [*rotation.in_turn(variants, number), *rotation.in_turn(variants, number + 1)]
    assert sorted(halves) == variants


@pytest.mark.parametrize("number", NUMBERS)
def test_two_runs_in_a_row_make_every_drill(number: int) -> None:
    one, other = set(drills.cases(number)), set(drills.cases(number + 1))
    assert one | other == set(drills.all_cases())
    assert {case for case in one & other if case.takes_turns} == set()


@pytest.mark.parametrize("number", NUMBERS)
def test_each_run_makes_every_variant_but_of_the_matrix(number: int) -> None:
    made = {(case.name, case.variant) for case in drills.cases(number)}
    missing = {(case.name, case.variant) for case in drills.all_cases()} - made
    assert {name for name, _variant in missing} == {"matrix"}
    assert len(missing) in {2, 3}


def test_the_turn_is_a_number_of_the_seed() -> None:
    assert [rotation.turn(seed) % 2 for seed in ("1", "4", "4bf38c64", "3f97d63b")] == [1, 0, 0, 1]


@pytest.mark.parametrize("number", NUMBERS)
def test_two_runs_in_a_row_have_every_file(number: int) -> None:
    files = {name for half in rotation.HALVES for name in half}
    waiting = [{name for name in files if rotation.waits(name, turn)} for turn in (number, number + 1)]
    assert waiting[0] | waiting[1] == files
    assert not waiting[0] & waiting[1]
    assert all((TESTS / name).is_file() for name in files)
    assert not rotation.waits("hosts/test_lab_hosts.py", number)
