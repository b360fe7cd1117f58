"""The types of settings: how each is parsed, checked, shown, and described in the JSON Schema."""

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
    """One type of setting.

    `read` raises ValueError for text that it cannot parse. `refuse` returns why a value is not allowed, else "".
    In a type of lists, `item` is the type of the items, and `read` raises ValueError because it gets a single value.
    """

    read: Callable[[Scalar], T]
    refuse: Callable[[T], str]
    show: Callable[[T], int | str | list[str]]
    schema: Mapping[str, object]
    item: "ValueType[str] | None" = None


def integer(minimum: int, maximum: int, *, why: str = "") -> ValueType[int]:
    """An integer from `minimum` to `maximum`; `why` is appended to the error of a value out of range."""
    return ValueType(
        read=_read_integer,
        refuse=lambda value: _outside(value, minimum, maximum, str, why),
        show=int,
        schema={"type": "integer", "minimum": minimum, "maximum": maximum},
    )


def format_version(known: int) -> ValueType[int]:
    """The version of a file's format; only `known` is accepted."""
    return ValueType(
        read=_read_integer,
        refuse=lambda value: "" if value == known else f"{value} is not supported; write {known}",
        show=int,
        schema={"const": known},
    )


def boolean() -> ValueType[bool]:
    """A boolean, in any of YAML's spellings."""
    return ValueType(read=_read_boolean, refuse=_accept, show=bool, schema={"type": "boolean"})


def choice(members: type[E]) -> ValueType[E]:
    """A member of an enum, by its value."""
    words = [member.value for member in members]

    def read(scalar: Scalar) -> E:
        if scalar.text not in words:
            raise ValueError(f"{shown(scalar.text)} is not known; write one of {', '.join(words)}")
        return members(scalar.text)

    return ValueType(read=read, refuse=_accept, show=str, schema={"type": "string", "enum": words})


def duration(minimum: int, maximum: int, *, whole_seconds: bool = False) -> ValueType[int]:
    """A duration with its unit, read as milliseconds; `minimum` and `maximum` are milliseconds."""

    def refuse(value: int) -> str:
        if outside := _outside(value, minimum, maximum, format_duration):
            return outside
        if whole_seconds and value % 1_000:
            return f"{format_duration(value)} is not whole seconds, the unit of Redis; write a value such as 2s"
        return ""

    return ValueType(
        read=lambda scalar: parse_duration(scalar.text),
        refuse=refuse,
        show=format_duration,
        schema={"type": "string", "pattern": "^[1-9][0-9]*(ms|s|m|h)$"},
    )


def size(minimum: int, maximum: int, *, why: str = "") -> ValueType[int]:
    """A size with its unit, read as bytes; `why` is appended to the error of a value out of range."""
    return ValueType(
        read=lambda scalar: parse_size(scalar.text),
        refuse=lambda value: _outside(value, minimum, maximum, format_size, why),
        show=format_size,
        schema={"type": "string", "pattern": "^[1-9][0-9]*[kKmMgG]?[bB]$"},
    )


def text(pattern: str, rule: str, *, may_look_numeric: bool = False) -> ValueType[str]:
    """Text that matches `pattern`; `rule` completes the hint "write ..." of the error."""
    form = re.compile(pattern)
    kinds = ["string", "number"] if may_look_numeric else "string"

    def refuse(value: str) -> str:
        return "" if form.fullmatch(value) else f"{shown(value)} is not valid; write {rule}"

    return ValueType(read=_read_text, refuse=refuse, show=str, schema={"type": kinds, "pattern": f"^{pattern}$"})


def names(item: ValueType[str], example: str) -> ValueType[tuple[str, ...]]:
    """A list of texts without duplicates; `example` is the list that the error shows."""

    def read(scalar: Scalar) -> tuple[str, ...]:
        raise ValueError(f"{shown(scalar.text)} is not a list; write one such as {example}")

    def refuse(values: tuple[str, ...]) -> str:
        twice = next((value for at, value in enumerate(values) if value in values[:at]), None)
        return "" if twice is None else f"{shown(twice)} is given twice; keep one"

    schema = {"type": "array", "uniqueItems": True, "items": item.schema}
    return ValueType(read=read, refuse=refuse, show=list, schema=schema, item=item)


def address() -> ValueType[str]:
    """An IPv4 address that a machine can have."""
    return checked_text(_refuse_address, {"type": "string", "format": "ipv4"})


def checked_text(refuse: Callable[[str], str], schema: Mapping[str, object]) -> ValueType[str]:
    """Text for which `refuse` returns ""."""
    return ValueType(read=_read_text, refuse=refuse, show=str, schema=schema)


def _accept(_value: object) -> str:
    return ""


def _outside(value: int, minimum: int, maximum: int, show: Callable[[int], str], why: str = "") -> str:
    if minimum <= value <= maximum:
        return ""
    return f"{show(value)} is out of range; write {show(minimum)} to {show(maximum)}{why}"


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
        raise ValueError(f"{shown(scalar.text)} is not a boolean; write true or false")
    return _WORDS[scalar.text.lower()]


def _read_text(scalar: Scalar) -> str:
    return scalar.text


def _refuse_address(value: str) -> str:
    if ":" in value:
        return f"{shown(value)} looks like IPv6, and rlctl supports only IPv4; write an IPv4 address"
    try:
        parsed = ipaddress.IPv4Address(value)
    except ValueError:
        return f"{shown(value)} is not an IPv4 address; write an address such as 10.0.0.11, not a host name"
    if parsed.is_unspecified:
        return "0.0.0.0 would make servers listen on every interface; write one address of the machine"
    if parsed.is_multicast or parsed.is_reserved:
        return f"{shown(value)} cannot be the address of a machine; write one such as 10.0.0.11"
    return ""
