"""What a setting may hold: how it is read, refused, shown, and described to editors."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from rlctl.files.mistakes import shown
from rlctl.files.units import format_duration, format_size, parse_duration, parse_size
from rlctl.files.yaml import Scalar

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_INTEGER_DIGITS = 15
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType(Generic[T]):
    """One type of setting; `read` raises ValueError, `refuse` answers "" for a value that is possible.

    A list has the type of its `item`, by which each is read; `read` then speaks of what is no list.
    """

    read: Callable[[Scalar], T]
    refuse: Callable[[T], str]
    show: Callable[[T], int | str | list[str]]
    schema: Mapping[str, object]
    item: "ValueType[str] | None" = None


def integer(least: int, most: int, *, why: str = "") -> ValueType[int]:
    """A whole number, typed in plain digits."""
    return ValueType(
        read=_read_integer,
        refuse=lambda value: _outside(value, least, most, str, why),
        show=int,
        schema={"type": "integer", "minimum": least, "maximum": most},
    )


def format_version(known: int) -> ValueType[int]:
    """The version of a file's format, of which this rlctl knows one."""
    return ValueType(
        read=_read_integer,
        refuse=lambda value: "" if value == known else f"{value} is not known; this rlctl knows only version {known}",
        show=int,
        schema={"const": known},
    )


def boolean() -> ValueType[bool]:
    """Yes or no, in any of YAML's spellings."""
    return ValueType(read=_read_boolean, refuse=_accept, show=bool, schema={"type": "boolean"})


def choice(members: type[E]) -> ValueType[E]:
    """One of a closed set of words."""
    words = [member.value for member in members]

    def read(scalar: Scalar) -> E:
        if scalar.text not in words:
            raise ValueError(f"{shown(scalar.text)} is not known; write one of {', '.join(words)}")
        return members(scalar.text)

    return ValueType(read=read, refuse=_accept, show=str, schema={"type": "string", "enum": words})


def duration(least: int, most: int, *, whole_seconds: bool = False) -> ValueType[int]:
    """A time with its unit, in milliseconds."""

    def refuse(value: int) -> str:
        if outside := _outside(value, least, most, format_duration):
            return outside
        if whole_seconds and value % 1_000:
            return f"{format_duration(value)} is not whole seconds, which Redis counts in; write 2s"
        return ""

    return ValueType(
        read=lambda scalar: parse_duration(scalar.text),
        refuse=refuse,
        show=format_duration,
        schema={"type": "string", "pattern": "^[1-9][0-9]*(ms|s|m|h)$"},
    )


def size(least: int, most: int, *, why: str = "") -> ValueType[int]:
    """An amount of memory with its unit, in bytes."""
    return ValueType(
        read=lambda scalar: parse_size(scalar.text),
        refuse=lambda value: _outside(value, least, most, format_size, why),
        show=format_size,
        schema={"type": "string", "pattern": "^[1-9][0-9]*[kKmMgG]?[bB]$"},
    )


def text(pattern: str, rule: str, *, may_look_numeric: bool = False) -> ValueType[str]:
    """Text of a known form; `rule` says the form in words."""
    form = re.compile(pattern)
    kinds = ["string", "number"] if may_look_numeric else "string"

    def refuse(value: str) -> str:
        return "" if form.fullmatch(value) else f"{shown(value)} is not possible here; write {rule}"

    return ValueType(read=_read_text, refuse=refuse, show=str, schema={"type": kinds, "pattern": f"^{pattern}$"})


def names(item: ValueType[str], example: str) -> ValueType[tuple[str, ...]]:
    """A list of texts, none of them twice."""

    def read(scalar: Scalar) -> tuple[str, ...]:
        raise ValueError(f"{shown(scalar.text)} is no list; write one such as {example}")

    def refuse(values: tuple[str, ...]) -> str:
        twice = next((value for at, value in enumerate(values) if value in values[:at]), None)
        return "" if twice is None else f"{shown(twice)} is given twice; keep one"

    schema = {"type": "array", "uniqueItems": True, "items": item.schema}
    return ValueType(read=read, refuse=refuse, show=list, schema=schema, item=item)


def address() -> ValueType[str]:
    """An IPv4 address that one machine can have."""
    return checked_text(_refuse_address, {"type": "string", "format": "ipv4"})


def checked_text(refuse: Callable[[str], str], schema: Mapping[str, object]) -> ValueType[str]:
    """Text for which `refuse` gives no reason."""
    return ValueType(read=_read_text, refuse=refuse, show=str, schema=schema)


def _accept(_value: object) -> str:
    return ""


def _outside(value: int, least: int, most: int, show: Callable[[int], str], why: str = "") -> str:
    if least <= value <= most:
        return ""
    return f"{show(value)} is out of range; write {show(least)} to {show(most)}{why}"


def _read_integer(scalar: Scalar) -> int:
    if not scalar.is_plain:
        raise ValueError(f"{shown(scalar.text)} is quoted text; write the number without quotes")
    if not _INTEGER.fullmatch(scalar.text):
        raise ValueError(f"{shown(scalar.text)} is not a whole number; write plain digits, such as 3")
    if len(scalar.text) > _INTEGER_DIGITS:
        raise ValueError(f"{shown(scalar.text)} is too large; write a smaller number")
    return int(scalar.text)


def _read_boolean(scalar: Scalar) -> bool:
    if not scalar.is_plain:
        raise ValueError(f"{shown(scalar.text)} is quoted text; write true or false without quotes")
    if scalar.text.lower() not in _WORDS:
        raise ValueError(f"{shown(scalar.text)} is neither; write true or false")
    return _WORDS[scalar.text.lower()]


def _read_text(scalar: Scalar) -> str:
    return scalar.text


def _refuse_address(value: str) -> str:
    if ":" in value:
        return f"{shown(value)} looks like IPv6, and version 1 supports IPv4 only; write an IPv4 address"
    try:
        parsed = ipaddress.IPv4Address(value)
    except ValueError:
        return f"{shown(value)} is not an IPv4 address; write an address such as 10.0.0.11, not a host name"
    if parsed.is_unspecified:
        return "0.0.0.0 would open every interface; write the one address that servers listen on"
    if parsed.is_multicast or parsed.is_reserved:
        return f"{shown(value)} cannot belong to a machine; write its own address, such as 10.0.0.11"
    return ""
