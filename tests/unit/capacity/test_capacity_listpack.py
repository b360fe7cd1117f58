"""Entries of listpacks, and the forms that members have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.capacity.layout.listpack import Form, integer_entry, parse_form, text_entry


@pytest.mark.parametrize(
    ("value", "size"),
    [
        *((0, 2), (127, 2), (128, 3), (4095, 3), (4096, 4), (32_767, 4), (32_768, 5), (8_388_607, 5)),
        *((8_388_608, 6), (2**31 - 1, 6), (2**31, 10), (1_763_400_000_000, 10)),
    ],
)
def test_integers(value: int, size: int) -> None:
    assert integer_entry(value) == size


@pytest.mark.parametrize(("length", "size"), [(1, 3), (8, 10), (36, 38), (63, 65), (64, 67), (125, 128), (126, 130)])
def test_texts(length: int, size: int) -> None:
    assert text_entry(length) == size


@given(st.integers(min_value=1, max_value=50_000))
def test_a_sequence_is_its_numbers_one_by_one(count: int) -> None:
    runs = Form(name="seq").runs(count)
    assert sum(run.count for run in runs) == count
    assert sum(run.count * run.entry_bytes for run in runs) == sum(map(integer_entry, range(1, count + 1)))
    assert sum(run.count * run.length for run in runs) == sum(len(str(one)) for one in range(1, count + 1))


@pytest.mark.parametrize("text", ["ms", "us", "seq", "relative", "float", "text:1", "text:1024"])
def test_members_there_are(text: str) -> None:
    assert parse_form(text).name == text


@pytest.mark.parametrize("text", ["", "text", "text:N", "text:0", "text:1025", "text:-1", "text:1.5", "MS", "uuid"])
def test_members_there_are_not(text: str) -> None:
    with pytest.raises(ValueError, match=r"ms, us, seq, relative, float, text:N, N = 1\.\.1024"):
        parse_form(text)


@pytest.mark.parametrize("text", ["seq", "text:8", "uuid"])
def test_scores_there_are_not(text: str) -> None:
    with pytest.raises(ValueError, match=r"ms, us, relative, float$"):
        parse_form(text, score=True)
