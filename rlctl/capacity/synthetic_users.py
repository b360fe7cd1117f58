"""Made-up users: keys of a given length, request ids of a given form, and the calls that fill a limiter. Pure."""

import random
import string
from binascii import crc_hqx
from collections.abc import Iterator

from rlctl.capacity.layout.listpack import Form
from rlctl.capacity.request import SLOTS, Algorithm, Question
from rlctl.errors import UsageFault
from rlctl.limits.release import Argument

# 2026-10-09: the start of a second, a minute, an hour and a day. Keys live from here on as long as from now.
_NOW_US = 1_791_504_000_000_000
_HOUR_MS = 3_600_000
_LETTERS = string.ascii_letters
_SEED = 20_261_009


def key_names(question: Question, users: int) -> Iterator[str]:
    """So many different keys of the question's length; in a cluster each in a slot at random."""
    tags = [""] if question.slots is None else _tags(question.slots)
    digits = len(str(users))
    if question.key_length < digits + max(map(len, tags)):
        raise UsageFault(
            f"--key-length: {question.key_length} bytes do not name {users} users apart",
            hint=f"{digits + max(map(len, tags))} bytes or more",
        )
    pick = random.Random(_SEED)  # noqa: S311  spreads keys, guards nothing
    for user in range(users):
        tag = pick.choice(tags)
        yield f"{tag}{user:0{question.key_length - len(tag)}d}"


def calls_of(question: Question) -> list[list[Argument]]:
    """The arguments of the calls that bring one user to the limit and keep the key for an hour."""
    limit = question.limit
    period_ms = max(1, _HOUR_MS // limit)
    match question.algorithm:
        case Algorithm.TOKEN_BUCKET | Algorithm.GCRA:
            return [[limit, 1, period_ms, limit, _NOW_US]]
        case Algorithm.FIXED_WINDOW | Algorithm.SLIDING_COUNTER:
            return [[limit, _HOUR_MS, limit, _NOW_US]]
        case Algorithm.ROLLING_WINDOW | Algorithm.ROLLING_RING:
            return [[limit, _HOUR_MS, 0, limit, _NOW_US]]
        case Algorithm.CONCURRENT:
            ids = request_ids(question.member, limit)
            return [["acquire", limit, _HOUR_MS, name, _NOW_US + at] for at, name in enumerate(ids)]


def request_ids(form: Form, count: int) -> list[str]:
    """So many different ones."""
    match form.name:
        case "seq":
            return [str(at + 1) for at in range(count)]
        case "ms" | "us" | "relative":
            return [str(10 ** (form.text_length - 1) + at) for at in range(count)]
        case "float":
            return [f"{1_763_400_000 + at}.123456" for at in range(count)]
        case _:
            return [_word(at, form.text_length) for at in range(count)]


def _word(number: int, length: int) -> str:
    """A number in letters, so that no server takes it for one."""
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    if number:
        raise UsageFault(f"--member: text:{length} does not name that many leases apart", hint="a longer text")
    return "".join(letters)


def _tags(slots: int) -> list[str]:
    """A hash tag for each of the first slots."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < slots:
        slot = crc_hqx(str(number).encode(), 0) % SLOTS
        if slot < slots:
            found.setdefault(slot, f"{{{number}}}")
        number += 1
    return list(found.values())
