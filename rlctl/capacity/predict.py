"""Bytes a user, in parts that add up, with the cliffs that are near. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import assert_never

from rlctl.capacity.layout.common import Layout
from rlctl.capacity.layout.encodings import state_of
from rlctl.capacity.layout.redis import RedisLayout
from rlctl.capacity.layout.shapes import UserState
from rlctl.capacity.layout.tables import Spread
from rlctl.capacity.layout.valkey import ValkeyLayout
from rlctl.capacity.models import claimed_bytes
from rlctl.capacity.request import Question, Server
from rlctl.capacity.warnings import Warn, warnings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Where a user's bytes are."""

    key: float
    ttl: float
    tables: float
    value: float
    cluster: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.key + self.ttl + self.tables + self.value + self.cluster


def layout_of(question: Question) -> Layout:
    """The layout of the question's server."""
    match question.server:
        case Server.REDIS_7_0 | Server.REDIS_8_0:
            return RedisLayout(question=question)
        case Server.VALKEY_8_1:
            return ValkeyLayout(question=question)
        case _:
            assert_never(question.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """An answer: data only, no reserve."""

    question: Question
    parts: Parts
    keys_per_user: float
    warnings: tuple[Warn, ...]

    @property
    def bytes_per_user(self) -> float:
        """What used_memory grows by for each user."""
        return self.parts.total

    @property
    def model_bytes_per_user(self) -> int:
        """The published claim, whatever the encoding."""
        return claimed_bytes(self.question.algorithm, self.question.limit)

    @property
    def ratio(self) -> float:
        """Truth against claim."""
        return self.bytes_per_user / self.model_bytes_per_user

    @property
    def total_bytes(self) -> int:
        """All users."""
        return round(self.question.users * self.bytes_per_user)

    def to_json(self, verb: str = "predict") -> dict[str, object]:
        """The contract of `capacity predict`."""
        question = self.question
        return {
            "schema": f"rlctl.capacity-{verb}/1",
            "server": question.server.value,
            "allocator": question.allocator.value,
            "algorithm": question.algorithm.value,
            "encoding": question.encoding,
            "limit": question.limit,
            "key_length": question.key_length,
            "model_bytes_per_user": self.model_bytes_per_user,
            "bytes_per_user": self.bytes_per_user,
            "ratio": self.ratio,
            "parts": asdict(self.parts),
            "users": question.users,
            "total_bytes": self.total_bytes,
            "warnings": [warn.to_json() for warn in self.warnings],
        }


def predict(question: Question, states: Mapping[str, int], *, keys_on_primary: int | None = None) -> Prediction:
    """Answer; `states` is the state format that the manifest gives each script. Other rules' keys share the tables."""
    state = state_of(question, states)
    keys = keys_on_primary or _keys(question, state)
    return predict_state(question, state, Spread(keys=keys, slots=question.slots or 1))


def _keys(question: Question, state: UserState) -> int:
    return max(1, ceil(question.users * state.keys_per_user))


def predict_state(question: Question, state: UserState, spread: Spread) -> Prediction:
    """Answer for what was seen to be stored."""
    layout = layout_of(question)
    # A hash of a hundred users is a whole key, however few of them there are.
    each = _keys(question, state) / question.users
    one = layout.key(spread)
    parts = Parts(
        key=each * one.key,
        ttl=each * one.ttl,
        tables=each * one.tables,
        value=sum(layout.value(shape) for shape in state.shapes) / state.users_per_key,
        cluster=each * one.cluster,
    )
    found = warnings_of(question, state, layout, spread.keys, parts.cluster / parts.total)
    return Prediction(question=question, parts=parts, keys_per_user=each, warnings=tuple(found))
