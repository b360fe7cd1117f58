"""Compares published figures with predictions. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from rlctl.capacity.layout.allocator import Allocator
from rlctl.capacity.layout.listpack import Form
from rlctl.capacity.models import PublishedClaim, claims, traffic
from rlctl.capacity.predict import Prediction, predict
from rlctl.capacity.request import Algorithm, MemoryRequest, ServerVersion

_REQUEST_ID = Form(name="text:36")
_MS = Form(name="ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedClaim:
    """A published claim and the prediction for the same state."""

    claim: PublishedClaim
    truth: Prediction

    @property
    def ratio(self) -> float:
        """Predicted bytes divided by claimed bytes."""
        return self.truth.bytes_per_user / self.claim.bytes_per_user

    def to_json(self) -> dict[str, object]:
        claim = self.claim
        return {
            "source": claim.source,
            "algorithm": claim.algorithm.value,
            "limit": claim.limit,
            "users": claim.users,
            "claimed_bytes_per_user": claim.bytes_per_user,
            "claimed_total_bytes": claim.total_bytes,
            "encoding": claim.encoding,
            "key_length": claim.key_length,
            "bytes_per_user": self.truth.bytes_per_user,
            "total_bytes": self.truth.total_bytes,
            "ratio": self.ratio,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """All published claims and their predictions for one server version."""

    server: ServerVersion
    allocator: Allocator
    rows: tuple[CheckedClaim, ...]
    traffic: Mapping[str, int]

    def to_json(self) -> dict[str, object]:
        """The output of `rlctl capacity model -o json`."""
        return {
            "schema": "rlctl.capacity-model/1",
            "server": self.server.value,
            "allocator": self.allocator.value,
            "rows": [row.to_json() for row in self.rows],
            "traffic": dict(self.traffic),
        }


def check_claims(
    base: MemoryRequest, states: Mapping[str, int], *, users: int, limit: int, concurrent: int, requests_per_s: int
) -> Published:
    """Compare every claim with a prediction for the server version and allocator of `base`."""
    rows = tuple(
        CheckedClaim(claim=claim, truth=predict(_request(base, claim), states))
        for claim in claims(users, limit, concurrent)
    )
    return Published(server=base.server, allocator=base.allocator, rows=rows, traffic=traffic(requests_per_s))


def _request(base: MemoryRequest, claim: PublishedClaim) -> MemoryRequest:
    return MemoryRequest(
        algorithm=claim.algorithm,
        encoding=claim.encoding,
        limit=claim.limit,
        users=claim.users,
        key_length=claim.key_length,
        member=_REQUEST_ID if claim.algorithm is Algorithm.CONCURRENT else _MS,
        server=base.server,
        allocator=base.allocator,
    )
