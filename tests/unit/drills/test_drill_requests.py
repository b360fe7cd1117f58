"""What a client sends, and how the answers are read: whole, in part, with errors in the middle, with WAIT."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlctl.drills.engine.requests import HOT_EVERY, BatchBuilder, ClientWork, Redirect, read_answers, redirect
from rlctl.drills.record.ops import (
    HOT,
    NOWHERE,
    WAITED,
    Batch,
    OpOutcome,
    outcome,
    outcome_of_error,
    unpack,
)

INSIDE = "script: 8442eae24ca2bfdba53d315ca80deb169c1dfcd3, on @user_script:2."
ADMIT = b"*6\r\n:1\r\n:0\r\n:4\r\n:0\r\n:600000\r\n:1763469600000000\r\n"
DENY = b"*6\r\n:0\r\n:1\r\n:0\r\n:1200\r\n:600000\r\n:1763469600000000\r\n"
MOVED = b"-MOVED 3999 127.77.0.2:7001\r\n"
NOSCRIPT = b"-NOSCRIPT No matching script.\r\n"
A, D, R, U = OpOutcome.ADMITTED, OpOutcome.DENIED, OpOutcome.REFUSED, OpOutcome.INDETERMINATE


def work(**changes: object) -> ClientWork:
    values: dict[str, object] = {
        "mode": "limiter",
        "sha1": "a" * 40,
        "hot_key": "{t}:h",
        "cold_keys": ("{t}:c0", "{t}:c1"),
        "ledger_key": "{t}:l",
        "hot_args": ("5", "1000", "1"),
        "cold_args": ("9", "1000", "1"),
        **changes,
    }
    return ClientWork(**values)  # type: ignore[arg-type]


PLAIN, BITS = BatchBuilder(work()), BatchBuilder(work(mode="bits"))
WAITING = BatchBuilder(work(wait_replicas=1))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "MOVED 1 127.0.0.1:7000",
            "ASK 1 127.0.0.1:7000",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys",
        ),
        *("READONLY You can't write against a read only replica.", "NOREPLICAS Not enough good replicas to write."),
        *("MISCONF Errors writing to the AOF file", "LOADING Redis is loading the dataset in memory", "NOAUTH x"),
        *("MASTERDOWN Link with MASTER is down", "NOSCRIPT No matching script.", "BUSY Redis is busy running a script"),
        *("OOM command not allowed when used memory > 'maxmemory'.", "NOPERM no permissions", "WRONGPASS invalid"),
        *("CROSSSLOT Keys in request don't hash to the same slot", "RLCTL_ARG cost is no number", "RLCTL_STATE 2"),
    ],
    ids=lambda text: text.split(" ")[0],
)
def test_these_errors_come_before_any_effect(text: str) -> None:
    assert outcome_of_error(text) is OpOutcome.REFUSED


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("ERR unknown command", id="any other"),
        pytest.param("UNBLOCKED client unblocked via CLIENT UNBLOCK", id="unblocked"),
        pytest.param("EXECABORT Transaction discarded", id="transaction"),
        pytest.param("", id="no text"),
        pytest.param("moved 1 127.0.0.1:7000", id="small letters"),
        pytest.param("MOVEDX 1", id="longer word"),
        pytest.param(f"ERR value is not an integer or out of range {INSIDE}", id="inside a script"),
        pytest.param(f"OOM command not allowed when used memory > 'maxmemory'. {INSIDE}", id="OOM inside a script"),
        pytest.param(f"READONLY You can't write against a read only replica. {INSIDE}", id="READONLY inside a script"),
    ],
)
def test_after_these_errors_nothing_is_sure(text: str) -> None:
    assert outcome_of_error(text) is OpOutcome.INDETERMINATE


def test_a_batch_of_decisions_names_key_ledger_arguments_and_number() -> None:
    message, flags = PLAIN.batch(7, 2, burst=False)
    words = [["EVALSHA", "a" * 40, "2", f"{{t}}:c{n % 2}", "{t}:l", "9", "1000", "1", "", f"{n:09d}"] for n in (7, 8)]
    assert message == b"".join(_resp(one) for one in words)
    assert flags == bytes(2)


def test_an_injected_clock_is_an_argument_of_the_decision() -> None:
    message, _ = PLAIN.batch(8, 1, burst=False, clock_us=1_763_469_600_000_000)
    words = ["9", "1000", "1", "1763469600000000", "000000008"]
    assert message == _resp(["EVALSHA", "a" * 40, "2", "{t}:c0", "{t}:l", *words])


def test_in_a_burst_every_fourth_is_the_hot_users() -> None:
    message, flags = PLAIN.batch(7, 5, burst=True)
    assert list(flags) == [HOT if n % HOT_EVERY == 0 else 0 for n in range(7, 12)]
    hot = _resp(["EVALSHA", "a" * 40, "2", "{t}:h", "{t}:l", "5", "1000", "1", "", "000000008"])
    assert message.count(hot) == 1
    assert message.count(b"{t}:h") == 1


def test_bare_writes_set_one_bit_each() -> None:
    message, flags = BITS.batch(7, 2, burst=True)
    assert message == _resp(["SETBIT", "{t}:l", "7", "1"]) + _resp(["SETBIT", "{t}:l", "8", "1"])
    assert flags == bytes(2)


@pytest.mark.parametrize("mode", ["limiter", "bits"])
def test_wait_follows_on_the_same_connection(mode: str) -> None:
    plain, _ = BatchBuilder(work(mode=mode)).batch(0, 1, burst=False)
    waiting = BatchBuilder(work(mode=mode, wait_replicas=2, wait_ms=50))
    assert waiting.batch(0, 1, burst=False)[0] == plain + _resp(["WAIT", "2", "50"])
    assert waiting.replies_to_wait == 1


def _resp(words: list[str]) -> bytes:
    return f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)


@pytest.mark.parametrize(
    ("data", "codes", "errors", "is_complete"),
    [
        pytest.param(b"", [U, U, U], [], False, id="no answer"),
        pytest.param(ADMIT + DENY + ADMIT, [A, D, A], [], True, id="whole"),
        pytest.param(ADMIT + DENY, [A, D, U], [], False, id="one missing"),
        pytest.param(ADMIT + DENY + DENY[:-2], [A, D, U], [], False, id="the last cut off at its end"),
        pytest.param(ADMIT + DENY + DENY[:8], [A, D, U], [], False, id="the last cut off after its first number"),
        pytest.param(DENY[:30], [U, U, U], [], False, id="numbers of a part are no answers"),
        pytest.param(ADMIT + MOVED + ADMIT, [A, R, A], [MOVED], True, id="error in the middle"),
        pytest.param(NOSCRIPT * 3, [R, R, R], [NOSCRIPT] * 3, True, id="errors only"),
        pytest.param(MOVED[:-2], [U, U, U], [], False, id="error cut off"),
        pytest.param(ADMIT + b"-ERR odd-one\r\n" + DENY, [A, U, D], [b"-ERR odd-one\r\n"], True, id="unsure error"),
        pytest.param(ADMIT + b"$-1\r\n" + ADMIT, [A, U, U], [], False, id="an answer of another kind"),
        pytest.param(ADMIT * 3 + ADMIT, [A, A, A], [], True, id="more than was asked for"),
    ],
)
def test_answers(data: bytes, codes: list[int], errors: list[bytes], *, is_complete: bool) -> None:
    found = read_answers(data, bytes(3), PLAIN, 0)
    assert list(found.codes) == codes
    assert list(found.errors) == [error[1:-2].decode() for error in errors]
    assert found.complete is is_complete


def test_answers_keep_the_flags() -> None:
    found = read_answers(ADMIT + MOVED, bytes([HOT, HOT, HOT]), PLAIN, 0)
    assert list(found.codes) == [HOT | A, HOT | R, HOT | U]


@pytest.mark.parametrize("data", [b":0\r\n:1\r\n", b"+OK\r\n:0\r\n"], ids=["old bits", "a status"])
def test_bare_writes_are_acknowledged_by_any_answer(data: bytes) -> None:
    assert list(read_answers(data, bytes(2), BITS, 0).codes) == [A, A]


@pytest.mark.parametrize(
    ("wait", "is_waited", "is_complete"),
    [
        pytest.param(b":1\r\n", True, True, id="enough"),
        pytest.param(b":2\r\n", True, True, id="more than enough"),
        pytest.param(b":0\r\n", False, True, id="none"),
        pytest.param(b"", False, False, id="no answer"),
        pytest.param(b":1", False, False, id="half an answer"),
        pytest.param(b"-ERR WAIT cannot be used with replica instances\r\n", False, True, id="an error"),
    ],
)
def test_wait_confirms_the_batch_before_it(wait: bytes, *, is_waited: bool, is_complete: bool) -> None:
    found = read_answers(ADMIT + DENY + wait, bytes(2), WAITING, 1)
    assert [outcome(code) for code in found.codes] == [A, D]
    assert [bool(code & WAITED) for code in found.codes] == [is_waited] * 2
    assert found.complete is is_complete
    assert found.errors == ()


def test_wait_behind_bare_writes_is_not_one_of_them() -> None:
    requests = BatchBuilder(work(mode="bits", wait_replicas=1))
    assert list(read_answers(b":0\r\n:0\r\n", bytes(2), requests, 1).codes) == [A, A]
    assert not read_answers(b":0\r\n:0\r\n", bytes(2), requests, 1).complete
    assert list(read_answers(b":0\r\n:0\r\n:1\r\n", bytes(2), requests, 1).codes) == [A | WAITED] * 2


@settings(deadline=None)
@given(st.lists(st.sampled_from([ADMIT, DENY, MOVED, NOSCRIPT]), min_size=1, max_size=6), st.data())
def test_a_part_says_the_same_as_the_whole_as_far_as_it_goes(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cut = data.draw(st.integers(min_value=0, max_value=len(whole)))
    ends = [len(b"".join(parts[: n + 1])) for n in range(len(parts))]
    complete = sum(end <= cut for end in ends)
    all_codes = read_answers(whole, bytes(len(parts)), PLAIN, 0).codes
    found = read_answers(whole[:cut], bytes(len(parts)), PLAIN, 0)
    assert found.codes == all_codes[:complete] + bytes([U]) * (len(parts) - complete)
    assert found.complete is (complete == len(parts))


@pytest.mark.parametrize(
    ("error", "target"),
    [
        ("MOVED 3999 127.77.0.2:7001", Redirect(host="127.77.0.2", port=7001)),
        ("MOVED 3999 ::1:7001", Redirect(host="::1", port=7001)),
        ("MOVED 3999 :7001", Redirect(host="", port=7001)),
        ("MOVED 3999", None),
        ("MOVED 3999 nowhere", None),
        ("ASK 3999 127.77.0.2:7001", None),
        ("READONLY no", None),
    ],
)
def test_redirect(error: str, target: Redirect | None) -> None:
    assert redirect(error) == target


def test_work_is_handed_over_as_json() -> None:
    given_work = work(wait_replicas=1)
    assert ClientWork.from_json(json.loads(json.dumps(given_work.to_json()))) == given_work


BATCHES = st.builds(
    Batch,
    node=st.sampled_from([0, 1, NOWHERE]),
    connection=st.integers(0, 255),
    first=st.integers(0, 2**32 - 1),
    sent_s=st.floats(0, 1e9),
    done_s=st.floats(0, 1e9),
    codes=st.binary(max_size=40),
)


@settings(deadline=None)
@given(st.lists(BATCHES, max_size=5))
def test_history_is_read_as_it_was_written(batches: list[Batch]) -> None:
    data = b"".join(one.pack() for one in batches)
    assert list(unpack(data)) == batches
    assert len(data) == sum(one.size for one in batches)


@settings(deadline=None)
@given(st.lists(BATCHES, min_size=1, max_size=4), st.data())
def test_a_torn_tail_is_left_out(batches: list[Batch], data: st.DataObject) -> None:
    whole = b"".join(one.pack() for one in batches)
    torn = data.draw(st.integers(min_value=1, max_value=batches[-1].size))
    assert list(unpack(whole[:-torn])) == batches[:-1]
