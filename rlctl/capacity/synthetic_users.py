"""Generates users for a measurement: key names, request ids, and the calls that fill a limiter. Pure."""

import random
import string
from binascii import crc_hqx
from collections.abc import Iterator

from rlctl.capacity.layout.listpack import Form
from rlctl.capacity.request import SLOTS, Algorithm, MemoryRequest
from rlctl.errors import UsageFault
from rlctl.limits.release import Argument

# 2026-10-09T00:00Z. Scripts set a relative TTL, so keys live an hour even if the server's clock differs.
_NOW_US = 1_791_504_000_000_000
_HOUR_MS = 3_600_000
_LETTERS = string.ascii_letters
_SEED = 20_261_009


def key_names(request: MemoryRequest, users: int) -> Iterator[str]:
    """Yield `users` different keys of the requested length. In a cluster, the keys are in random slots."""
    tags = [""] if request.slots is None else _tags(request.slots)
    digits = len(str(users))
    if request.key_length < digits + max(map(len, tags)):
        raise UsageFault(
            f"--key-length: {request.key_length} bytes are too few for {users} different keys",
            hint=f"use {digits + max(map(len, tags))} bytes or more",
        )
    pick = random.Random(_SEED)  # noqa: S311  spreads keys, protects nothing
    for user in range(users):
        tag = pick.choice(tags)
        yield f"{tag}{user:0{request.key_length - len(tag)}d}"


def calls_of(request: MemoryRequest) -> list[list[Argument]]:
    """The arguments of the calls that bring a user to the limit and keep the key for an hour."""
    limit = request.limit
    period_ms = max(1, _HOUR_MS // limit)
    match request.algorithm:
        case Algorithm.TOKEN_BUCKET | Algorithm.GCRA:
            return [[limit, 1, period_ms, limit, _NOW_US]]
        case Algorithm.FIXED_WINDOW | Algorithm.SLIDING_COUNTER:
            return [[limit, _HOUR_MS, limit, _NOW_US]]
        case Algorithm.ROLLING_WINDOW | Algorithm.ROLLING_RING:
            return [[limit, _HOUR_MS, 0, limit, _NOW_US]]
        case Algorithm.CONCURRENT:
            ids = request_ids(request.member, limit)
            return [["acquire", limit, _HOUR_MS, name, _NOW_US + at] for at, name in enumerate(ids)]


def request_ids(form: Form, count: int) -> list[str]:
    """Make `count` different request ids in the given form."""
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
    """Write a number in letters, because servers would store digits as an integer."""
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    if number:
        raise UsageFault(
            f"--member: text:{length} is too short for that many different leases", hint="use a longer text"
        )
    return "".join(letters)


def _tags(slots: int) -> list[str]:
    """A hash tag for each of the first `slots` slots."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < slots:
        slot = crc_hqx(str(number).encode(), 0) % SLOTS
        if slot < slots:
            found.setdefault(slot, f"{{{number}}}")
        number += 1
    return list(found.values())
