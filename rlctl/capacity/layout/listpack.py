"""Bytes of listpack entries, and the forms of members and scores in the logs of limiters. Pure."""

import re
from dataclasses import dataclass
from itertools import pairwise

HEADER_BYTES = 7
# For integer encodings of 7, 13, 16, 24 and 32 bits: the largest value, and bytes of an entry with its back length.
_INTEGERS = ((127, 2), (4_095, 3), (32_767, 4), (8_388_607, 5), (2_147_483_647, 6))
_LONGEST_INTEGER = 10
_TEXT = re.compile(r"text:([0-9]{1,5})")
MOST_TEXT = 1024
_FIXED = {"ms": 13, "us": 16, "relative": 7}
_FLOAT_LENGTH = 17
MEMBERS = ("ms", "us", "seq", "relative", "float", "text:N")
SCORES = ("ms", "us", "relative", "float")


def integer_entry(value: int) -> int:
    """Bytes of an entry for an integer, or for text that is an integer in canonical form."""
    return next((size for most, size in _INTEGERS if value <= most), _LONGEST_INTEGER)


def text_entry(length: int) -> int:
    """Bytes of an entry for text that is not an integer: header, text, and back length."""
    header = 1 if length < 64 else 2 if length < 4096 else 5
    body = header + length
    return body + next(size for size, most in enumerate((127, 16_383, 2_097_151, 268_435_455), start=1) if body <= most)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRun:
    """`count` entries of equal size: the listpack bytes and the text length of each entry."""

    count: int
    entry_bytes: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of the members or scores of a log, such as `ms` or `text:36`: see `MEMBERS` and `SCORES`."""

    name: str

    def runs(self, count: int) -> tuple[EntryRun, ...]:
        """The first `count` members, in runs of equal size."""
        if self.name == "seq":
            return _sequence(count)
        if self.name in _FIXED:
            digits = _FIXED[self.name]
            return (EntryRun(count=count, entry_bytes=integer_entry(10 ** (digits - 1)), length=digits),)
        length = self.text_length
        return (EntryRun(count=count, entry_bytes=text_entry(length), length=length),)

    @property
    def text_length(self) -> int:
        """The length of a member as text; for a sequence, the length of its first member."""
        match = _TEXT.fullmatch(self.name)
        return int(match[1]) if match else {**_FIXED, "float": _FLOAT_LENGTH, "seq": 1}[self.name]


def parse_form(text: str, *, score: bool = False) -> Form:
    """Parse the form of a member or score. Raises ValueError with the allowed forms."""
    allowed = SCORES if score else MEMBERS
    match = None if score else _TEXT.fullmatch(text)
    if match and 1 <= int(match[1]) <= MOST_TEXT:
        return Form(name=f"text:{int(match[1])}")
    if text not in allowed or text == "text:N":
        more = "" if score else f", N = 1..{MOST_TEXT}"
        raise ValueError(f"{text[:80]!r} is not one of {', '.join(allowed)}{more}")
    return Form(name=text)


def _sequence(count: int) -> tuple[EntryRun, ...]:
    """Runs of the integers 1, 2, 3, ...; a new run begins when the entry or its text becomes longer."""
    edges = sorted({most for most, _size in _INTEGERS} | {10**digits - 1 for digits in range(1, 19)})
    runs = []
    for below, upto in pairwise((0, *edges)):
        last = min(upto, count)
        if last > below:
            runs.append(EntryRun(count=last - below, entry_bytes=integer_entry(last), length=len(str(last))))
    return tuple(runs)
