"""The wrapped script, the keys of a run, and ledgers as they come off the wire."""

import hashlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlctl.drills.record.ledger import COLD_USERS, EMPTY, Keys, Ledger, read_bitmap, read_list, tag_in, wrap
from rlctl.drills.scenario import library
from rlctl.limiter.core.routes import slot_of
from rlctl.limits.release import Script
from rlctl.scripts.release import load_release

FRAME = (library.FOLDER.parent / "engine/ledger.lua").read_bytes()
EACH = pytest.mark.parametrize("script", load_release().scripts, ids=lambda script: script.name)


@EACH
def test_wrapper_holds_the_shipped_text_unchanged(script: Script) -> None:
    wrapped = wrap(script, FRAME)
    shebang, _, body = script.source.partition(b"\n")
    before, _, after = FRAME.partition(b"--[[shipped script]]\n")
    assert shebang == b"#!lua"
    assert wrapped.source == before + body + after
    assert wrapped.sha1 == hashlib.sha1(wrapped.source, usedforsecurity=False).hexdigest()


@EACH
def test_wrapper_may_call_one_command_more(script: Script) -> None:
    assert wrap(script, FRAME).commands == (*script.commands, "rpush")


@EACH
def test_wrapper_appends_after_the_decision_and_only_there(script: Script) -> None:
    source = wrap(script, FRAME).source
    assert source.count(b"'RPUSH'") == 1
    assert source.index(b"RPUSH") > source.index(b"local reply = decide")
    assert source.startswith(b"#!lua\n")
    assert source.count(b"#!") == 1


def test_keys_of_a_run_are_in_one_slot_and_under_one_prefix() -> None:
    keys = Keys(run="r1", tag="t5")
    every = keys.all(["majority", "minority"])
    assert len(set(every)) == len(every) == 1 + COLD_USERS + 2
    assert all(key.startswith("rlctl:drill:r1:{t5}:") for key in every)
    assert keys.prefix == "rlctl:drill:r1:"


# 2_196 comes last: some 167,000 tags are tried for it.
@settings(deadline=None, max_examples=20)
@example(2_196)
@given(st.integers(min_value=0, max_value=16_383))
def test_there_is_a_tag_for_every_slot(slot: int) -> None:
    assert slot_of(tag_in([(slot, slot)]).encode()) == slot


def test_a_tag_in_any_of_the_ranges_will_do() -> None:
    assert 100 <= slot_of(tag_in([(100, 200), (300, 400)]).encode()) <= 400


def listed(*entries: str) -> bytes:
    return b"*%d\r\n" % len(entries) + b"".join(b"$10\r\n%b\r\n" % entry.encode() for entry in entries)


WHOLE = listed("000000000+", "000000001-", "000000000+", "123456789-")


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        pytest.param(WHOLE, Ledger(ids=(0, 1, 0, 123_456_789), admitted=(0, 0)), id="in order, twice, both signs"),
        pytest.param(b"*0\r\n", EMPTY, id="empty"),
        pytest.param(WHOLE[:-14], None, id="torn"),
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"-MOVED 1 127.0.0.1:7000\r\n", None, id="elsewhere"),
        pytest.param(b"-LOADING Redis is loading\r\n", None, id="not yet"),
    ],
)
def test_list(reply: bytes, found: Ledger | None) -> None:
    assert read_list(reply) == found


@given(st.sets(st.integers(0, 200)))
def test_bitmap_is_read_as_it_was_set(ids: set[int]) -> None:
    text = bytearray(max(ids, default=-1) // 8 + 1)
    for one in ids:
        text[one // 8] |= 0x80 >> one % 8
    found = read_bitmap(b"$%d\r\n%b\r\n" % (len(text), bytes(text)))
    assert found == Ledger(ids=tuple(sorted(ids)), admitted=tuple(sorted(ids)))


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        pytest.param(b"$-1\r\n", EMPTY, id="no key"),
        pytest.param(b"$0\r\n\r\n", EMPTY, id="empty"),
        pytest.param(
            b"$2\r\n\r\n\r\n", Ledger(ids=(4, 5, 7, 12, 14), admitted=(4, 5, 7, 12, 14)), id="line ends in it"
        ),
        pytest.param(b"$2\r\n\x80\x80", None, id="torn before its end"),
        pytest.param(b"$3\r\n\x80\x80\r\n", None, id="torn"),
        pytest.param(b"-MOVED 1 127.0.0.1:7000\r\n", None, id="elsewhere"),
    ],
)
def test_bitmap(reply: bytes, found: Ledger | None) -> None:
    assert read_bitmap(reply) == found
