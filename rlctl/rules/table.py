"""The keys of the rules file with types and descriptions, for reading and for the JSON Schema. Pure."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from rlctl.files.mistakes import shown
from rlctl.files.table import Field
from rlctl.files.units import parse_duration
from rlctl.files.values import ValueType, boolean, choice, duration, format_version, integer, text
from rlctl.files.yaml import Scalar
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.limits.bucket import WHOLE
from rlctl.limits.match import DIMENSION, PLACE
from rlctl.limits.rule import RuleClass

Algorithm = StrEnum("Algorithm", [(name.upper(), name) for name in ALGORITHMS])  # type: ignore[misc]
_YEAR_MS = parse_duration("8760h")
_MOST = 10**15 - 1
_RATE = re.compile(r"(?P<count>[0-9]+)(/(?P<span>[0-9]*[a-z]+))?")
_PERCENT = re.compile(r"(?P<whole>[0-9]{1,3})(\.(?P<part>[0-9]{1,2}))?%?")
_LONGEST_TEMPLATE = 200
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
NAME_RULE = "up to 64 letters, digits, dots, dashes or underscores"
# One line without control characters, and without characters that reorder or break a line on a screen.
LINE = r"[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]{1,200}"
VERSION = format_version(1)


class Rate(NamedTuple):
    """A rate; `period_ms` is None if the file sets the period with the key `period`."""

    amount: int
    period_ms: int | None


def rate() -> ValueType[Rate]:
    """The type of a rate: `5/s`, `100/60s`, or a number beside the key `period`."""
    wrong = "is not a rate; write units and time, such as 5/s or 100/60s"

    def read(scalar: Scalar) -> Rate:
        found = _RATE.fullmatch(scalar.text)
        if found is None or len(found["count"]) > 15:
            raise ValueError(f"{shown(scalar.text)} {wrong}")
        span = found["span"]
        if span is None:
            return Rate(int(found["count"]), None)
        return Rate(int(found["count"]), parse_duration(span if span[0].isdigit() else f"1{span}"))

    return ValueType(
        read=read,
        refuse=lambda value: "" if value.amount else "a rate of 0 never refills; write `limit: 0` to deny all requests",
        show=str,
        schema={"type": ["string", "integer"], "pattern": "^[1-9][0-9]*(/([1-9][0-9]*)?(ms|s|m|h))?$", "minimum": 1},
    )


def percent() -> ValueType[int]:
    """The type of a percentage: 0 to 100 with up to two decimals, read as parts of 10,000."""

    def read(scalar: Scalar) -> int:
        found = _PERCENT.fullmatch(scalar.text)
        if found is None:
            raise ValueError(f"{shown(scalar.text)} is not a percentage; write 0 to 100 with at most two decimals")
        return int(found["whole"]) * 100 + int((found["part"] or "").ljust(2, "0"))

    return ValueType(
        read=read,
        refuse=lambda value: "" if value <= WHOLE else "more than 100 percent",
        show=str,
        schema={
            "type": ["number", "string"],
            "minimum": 0,
            "maximum": 100,
            "pattern": r"^(0?[0-9]{1,2}(\.[0-9]{1,2})?|100(\.0{1,2})?)%?$",
        },
    )


def template() -> ValueType[str]:
    """The type of a key template with named places in braces."""
    return ValueType(
        read=lambda scalar: scalar.text,
        refuse=_refuse_template,
        show=str,
        schema={
            "type": "string",
            "maxLength": _LONGEST_TEMPLATE,
            "pattern": rf"^[^{{}}]*(\{{{DIMENSION}\}}[^{{}}]*)+$",
        },
    )


def _refuse_template(value: str) -> str:
    right = "write named places in braces, such as `user:{user}`"
    if not value.isprintable() or len(value) > _LONGEST_TEMPLATE:
        return f"{shown(value)} is not printable text of at most {_LONGEST_TEMPLATE} characters"
    rest = PLACE.sub("", value)
    if "{" in rest or "}" in rest:
        return f"{shown(value)} has an unmatched brace; {right}"
    names = PLACE.findall(value)
    if not names:
        return f"{shown(value)} has no named place, so all requests would share one limit; {right}"
    odd = next((name for name in names if not re.fullmatch(DIMENSION, name)), None)
    if odd is not None:
        return f"{shown('{' + odd + '}')} is not a dimension; write lower-case letters, digits and underscores"
    return ""


_COUNT = integer(0, _MOST)
_TIME = duration(1, _YEAR_MS)
PARAMETERS: Mapping[str, Field] = {
    field.key: field
    for field in (
        Field(
            key="limit",
            type=_COUNT,
            doc="requests in a window, leases at once, capacity of a bucket, or burst of gcra; 0 denies all",
        ),
        Field(key="capacity", type=_COUNT, doc="tokens in a full bucket"),
        Field(key="burst", type=_COUNT, doc="requests admitted at once"),
        Field(key="rate", type=rate(), doc="requests admitted per time in the long run, such as 5/s or 100/60s"),
        Field(key="period", type=_TIME, doc="period of `rate`, if rate is a plain number"),
        Field(key="window", type=_TIME, doc="length of the window that `limit` applies to"),
        Field(key="min_interval", type=_TIME, doc="least time between two admitted requests"),
        Field(key="lease", type=_TIME, doc="time after which a lease expires unless it is renewed"),
    )
}
# The parameters of each algorithm's script, and the keys of the file that set them.
WANTED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "token_bucket": {"capacity": ("capacity", "limit", "burst"), "rate": ("rate",), "period_ms": ("rate", "period")},
    "gcra": {"burst": ("burst", "limit"), "rate": ("rate",), "period_ms": ("rate", "period")},
    "fixed_window": {"limit": ("limit",), "window_ms": ("window",)},
    "sliding_counter": {"limit": ("limit",), "window_ms": ("window",)},
    "rolling_window": {"limit": ("limit",), "window_ms": ("window",), "min_interval_ms": ("min_interval",)},
    "rolling_ring": {"limit": ("limit",), "window_ms": ("window",), "min_interval_ms": ("min_interval",)},
    "concurrent": {"limit": ("limit",), "lease_ms": ("lease",)},
}
OPTIONAL = frozenset({"min_interval_ms"})
ID = Field(
    key="id",
    type=text(NAME, NAME_RULE, may_look_numeric=True),
    doc="name of the rule; part of its Redis keys",
    required=True,
)
ALGORITHM = Field(key="algorithm", type=choice(Algorithm), doc="how the rule counts", required=True)
TEMPLATE = Field(key="key", type=template(), doc="identity to count by, such as `apikey:{api_key}`", required=True)
PERCENT = Field(key="percent", type=percent(), doc="share of identities in the canary, in percent", required=True)
CONDITION: ValueType[str] = text(LINE, "one line of printable text", may_look_numeric=True)
FIELDS: Mapping[str, Field] = {
    field.key: field
    for field in (
        Field(
            key="on_failure",
            type=text(
                r"open|closed|local(:[1-9][0-9]{0,4})?",
                "open, closed, local, or local:N with N instances of the service",
            ),
            doc="failure policy while Redis does not answer [general: open, security: closed]",
        ),
        Field(
            key="class",
            attr="rule_class",
            type=choice(RuleClass),
            doc="general or security; a security rule must not fail open",
        ),
        Field(key="shadow", type=boolean(), doc="true to count on separate keys and never deny"),
        Field(
            key="script",
            attr="pin",
            type=text(r"[0-9]+\.[0-9]+\.[0-9]+", "a version such as 1.0.0"),
            doc="version of the script to pin",
        ),
        Field(
            key="owner",
            type=text(LINE, "one line of printable text", may_look_numeric=True),
            doc="team or person responsible for the rule",
        ),
    )
}
STRUCTURES = ("key", "tiers", "match", "canary")
KEYS = (ID.key, ALGORITHM.key, *PARAMETERS, *STRUCTURES, *FIELDS)


def parameter_keys(algorithm: str) -> tuple[str, ...]:
    """The keys of the file that set this algorithm's parameters."""
    return tuple(dict.fromkeys(key for keys in WANTED[algorithm].values() for key in keys))
