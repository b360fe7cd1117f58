"""Predicts the bytes of a user by part, and warns about thresholds that are close. Pure."""

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
from rlctl.capacity.request import MemoryRequest, ServerVersion
from rlctl.capacity.warnings import CapacityWarning, warnings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The bytes of a user by part; `total` is their sum."""

    key: float
    ttl: float
    tables: float
    value: float
    cluster: float

    @property
    def total(self) -> float:
        return self.key + self.ttl + self.tables + self.value + self.cluster


def layout_of(request: MemoryRequest) -> Layout:
    """The memory layout of the request's server version."""
    match request.server:
        case ServerVersion.REDIS_7_0 | ServerVersion.REDIS_8_0:
            return RedisLayout(request=request)
        case ServerVersion.VALKEY_8_1:
            return ValkeyLayout(request=request)
        case _:
            assert_never(request.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The predicted memory of a request: data only, without reserve."""

    request: MemoryRequest
    parts: Parts
    keys_per_user: float
    warnings: tuple[CapacityWarning, ...]

    @property
    def bytes_per_user(self) -> float:
        """Bytes by which used_memory grows for each user."""
        return self.parts.total

    @property
    def model_bytes_per_user(self) -> int:
        """The published bytes for each user, which do not depend on the encoding."""
        return claimed_bytes(self.request.algorithm, self.request.limit)

    @property
    def ratio(self) -> float:
        """Predicted bytes divided by published bytes."""
        return self.bytes_per_user / self.model_bytes_per_user

    @property
    def total_bytes(self) -> int:
        return round(self.request.users * self.bytes_per_user)

    def to_json(self, verb: str = "predict") -> dict[str, object]:
        """The output of `rlctl capacity predict -o json`."""
        request = self.request
        return {
            "schema": f"rlctl.capacity-{verb}/1",
            "server": request.server.value,
            "allocator": request.allocator.value,
            "algorithm": request.algorithm.value,
            "encoding": request.encoding,
            "limit": request.limit,
            "key_length": request.key_length,
            "model_bytes_per_user": self.model_bytes_per_user,
            "bytes_per_user": self.bytes_per_user,
            "ratio": self.ratio,
            "parts": asdict(self.parts),
            "users": request.users,
            "total_bytes": self.total_bytes,
            "warnings": [warn.to_json() for warn in self.warnings],
        }


def predict(request: MemoryRequest, states: Mapping[str, int], *, keys_on_primary: int | None = None) -> Prediction:
    """Predict the memory of a request.

    `states` has the state format of each script. `keys_on_primary` counts the keys of all rules, since all
    keys share the tables.
    """
    state = state_of(request, states)
    keys = keys_on_primary or _keys(request, state)
    return predict_state(request, state, Spread(keys=keys, slots=request.slots or 1))


def _keys(request: MemoryRequest, state: UserState) -> int:
    return max(1, ceil(request.users * state.keys_per_user))


def predict_state(request: MemoryRequest, state: UserState, spread: Spread) -> Prediction:
    """Predict the memory for a given state of a user."""
    layout = layout_of(request)
    # A hash for a hundred users is one key even if it has fewer users.
    each = _keys(request, state) / request.users
    one = layout.key(spread)
    parts = Parts(
        key=each * one.key,
        ttl=each * one.ttl,
        tables=each * one.tables,
        value=sum(layout.value(shape) for shape in state.shapes) / state.users_per_key,
        cluster=each * one.cluster,
    )
    found = warnings_of(request, state, layout, spread.keys, parts.cluster / parts.total)
    return Prediction(request=request, parts=parts, keys_per_user=each, warnings=tuple(found))
