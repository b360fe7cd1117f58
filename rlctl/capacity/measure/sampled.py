"""One sampled key: what the server says of it, what it truly costs, and what the formulas say. Pure."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from rlctl.capacity.layout.allocator import Allocator, rounded
from rlctl.capacity.layout.listpack import Form
from rlctl.capacity.layout.shapes import Number, Shape, SortedSet, Text, UserState
from rlctl.capacity.layout.tables import Spread, filled_slots
from rlctl.capacity.predict import layout_of, predict_state
from rlctl.capacity.request import SCRIPT, Algorithm, Question, Server
from rlctl.limits.slots import key_slot
from rlctl.services import split_key
from rlctl.topology.model import EvictionPolicy

_ENTRY, _OBJECT = 24, 16
_SHARED_INTEGERS = 10_000
_SKIPLIST = "skiplist"
_KEPT_PACKED = 2**31 - 1
# The runtime user may write any name below `rl:`; int() refuses long ones.
_STATE = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleName:
    """Whose key it is, as the key's own name says; a key that is none of a rule's has neither."""

    rule: str | None = None
    algorithm: str | None = None
    state: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One key; `size` is the length of its string or the entries of its log."""

    key_length: int
    name: RuleName
    memory_usage: int
    encoding: str
    has_ttl: bool
    size: int | None
    member_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The server on which keys were sampled."""

    server: Server | None
    allocator: Allocator | None
    policy: EvictionPolicy | None
    keys: int
    slots: int | None
    states: Mapping[str, int]
    filled_slots: int | None = None

    @property
    def spread(self) -> Spread:
        """How the keys lie on the slots, as far as that was seen."""
        return Spread(keys=max(1, self.keys), slots=self.slots or 1, seen_filled=self.filled_slots)


def name_of(key: str) -> RuleName:
    """`rl:[service:]{identity}:rule:algorithm:state[:window]`; identities hold neither braces nor colons as such."""
    apart = split_key(key)
    if apart is None:
        return RuleName()
    words = apart[1].partition("}:")[2].split(":")
    is_ours = len(words) in {3, 4} and words[1] in {one.value for one in Algorithm} and _STATE.fullmatch(words[2])
    return RuleName(rule=words[0], algorithm=words[1], state=int(words[2])) if is_ours else RuleName()


def slots_filled(keys: Collection[str], place: Place) -> int | None:
    """How many slots hold a key: all keys of an identity share one, so there may be far fewer than keys.

    A scan goes slot by slot, so the slots among the names that were seen stand for all; it can cut a slot in two.
    """
    if place.slots is None or not keys:
        return None
    seen = len({key_slot(key) for key in keys})
    most = filled_slots(max(1, place.keys), place.slots)
    return max(1, round(min(most, seen * place.keys / len(keys))))


def true_bytes(one: Sampled, place: Place) -> float | None:
    """MEMORY USAGE, and what it leaves out; None where nobody measured what that is."""
    question = _question(one, place)
    if question is None:
        return None
    key = layout_of(question).key(place.spread)
    if question.server is Server.VALKEY_8_1:
        return one.memory_usage + key.tables + key.cluster + _valkey_object(one, question)
    rounding = rounded(_ENTRY, question.allocator) - _ENTRY
    entries = 1 + (one.size or 0 if one.encoding == _SKIPLIST else 0)
    cluster = key.cluster if question.server is Server.REDIS_8_0 else 0
    return one.memory_usage + entries * rounding + key.ttl + key.tables + cluster - _shared(one, question)


def predicted_bytes(one: Sampled, place: Place) -> float | None:
    """What the formulas say of a key of this length with this many entries; None without a formula."""
    question, shape = _question(one, place), _shape(one, place)
    if question is None or shape is None:
        return None
    cap = 0 if one.encoding == _SKIPLIST else _KEPT_PACKED
    asked = replace(question, zset_max_listpack_entries=cap)
    return predict_state(asked, UserState(shapes=(shape,)), place.spread).bytes_per_user


def _question(one: Sampled, place: Place) -> Question | None:
    if place.server is None or place.allocator is None:
        return None
    return Question(
        algorithm=Algorithm(one.name.algorithm) if one.name.algorithm else Algorithm.GCRA,
        encoding=SCRIPT,
        key_length=one.key_length,
        has_ttl=one.has_ttl,
        server=place.server,
        allocator=place.allocator,
        policy=place.policy or EvictionPolicy.NOEVICTION,
        slots=place.slots,
    )


def _shape(one: Sampled, place: Place) -> Shape | None:
    """What the release's script keeps there; None for a state that it does not write."""
    if one.name.algorithm is None or one.size is None or place.states.get(one.name.algorithm) != one.name.state:
        return None
    match Algorithm(one.name.algorithm):
        case Algorithm.GCRA | Algorithm.FIXED_WINDOW if one.encoding == "int":
            return Number(value=2**53)
        case Algorithm.ROLLING_WINDOW:
            return SortedSet(count=one.size, member=Form(name="us"), score=Form(name="us"))
        case Algorithm.CONCURRENT:
            if one.member_length is None:
                return None
            return SortedSet(count=one.size, member=Form(name=f"text:{one.member_length}"), score=Form(name="us"))
        case Algorithm.ROLLING_RING:
            return Text(length=one.size, written_into=True)
        case _:
            return Text(length=one.size)


def _valkey_object(one: Sampled, question: Question) -> int:
    """The key's object, of which MEMORY USAGE counts 16 bytes, or all when a short value stands in it."""
    if one.encoding == "embstr":
        return 0
    return rounded(layout_of(question).name_request(), question.allocator) - _OBJECT


def _shared(one: Sampled, question: Question) -> int:
    """An integer below 10000 is the server's own; the scripts write none, other keys may."""
    digits = len(str(_SHARED_INTEGERS)) - 1
    is_shared = one.encoding == "int" and one.size is not None and one.size <= digits and question.shares_integers
    return _OBJECT if is_shared else 0
