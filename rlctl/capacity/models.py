"""Published figures for the memory and the traffic of rate limiters. Pure."""

from dataclasses import dataclass

from rlctl.capacity.request import SCRIPT, Algorithm

# The gateway design: two keys of 70 bytes for each user, ten million users, and a window of one minute.
GATEWAY_USERS = 10_000_000
GATEWAY_KEYS, GATEWAY_KEY_BYTES = 2, 70
KEY_CREATIONS_PER_S = 167_000
OPERATIONS_PER_REQUEST = 2
BITS_PER_REQUEST = 1_600
SHARD_FROM_REQUESTS_PER_S = 150_000
_PAPER_KEY, _GATEWAY_KEY = 20, 40
_CASE_STUDY_BYTES = 1_000


def claimed_bytes(algorithm: Algorithm, limit: int) -> int:
    """The published bytes for each user, which do not depend on the encoding."""
    match algorithm:
        case Algorithm.TOKEN_BUCKET | Algorithm.GCRA | Algorithm.FIXED_WINDOW:
            return 16
        case Algorithm.ROLLING_WINDOW | Algorithm.ROLLING_RING:
            return 8 * limit
        case Algorithm.CONCURRENT:
            return 16 * limit
        case Algorithm.SLIDING_COUNTER:
            return GATEWAY_KEYS * GATEWAY_KEY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedClaim:
    """A published figure and the encoding that it describes."""

    source: str
    algorithm: Algorithm
    limit: int
    users: int
    bytes_per_user: int
    encoding: str
    key_length: int

    @property
    def total_bytes(self) -> int:
        return self.users * self.bytes_per_user


def claims(users: int, limit: int, concurrent: int) -> tuple[PublishedClaim, ...]:
    """Return every published figure twice: for the encoding it describes, and for the script of this release."""
    published = [
        _paper(Algorithm.TOKEN_BUCKET, "hash-float", limit, users),
        _paper(Algorithm.FIXED_WINDOW, "string", limit, users),
        _paper(Algorithm.ROLLING_WINDOW, "zset", limit, users),
        _paper(Algorithm.CONCURRENT, "zset", concurrent, users),
        _digest(Algorithm.FIXED_WINDOW, "string", limit, users, 8),
        _digest(Algorithm.TOKEN_BUCKET, "hash-float", limit, users, 12),
        _digest(Algorithm.ROLLING_WINDOW, "zset", limit, users, 16),
        PublishedClaim(
            source="gateway",
            algorithm=Algorithm.SLIDING_COUNTER,
            limit=limit,
            users=GATEWAY_USERS,
            bytes_per_user=GATEWAY_KEYS * GATEWAY_KEY_BYTES,
            encoding="strings",
            key_length=_GATEWAY_KEY,
        ),
        PublishedClaim(
            source="case-study",
            algorithm=Algorithm.ROLLING_WINDOW,
            limit=limit,
            users=users,
            bytes_per_user=_CASE_STUDY_BYTES,
            encoding="zset",
            key_length=_PAPER_KEY,
        ),
    ]
    return tuple(row for claim in published for row in (claim, _by_script(claim)))


def traffic(requests_per_s: int) -> dict[str, int]:
    """The estimates of the gateway design for operations, bandwidth and new keys."""
    return {
        "requests_per_s": requests_per_s,
        "operations_per_s": OPERATIONS_PER_REQUEST * requests_per_s,
        "bits_per_s": BITS_PER_REQUEST * requests_per_s,
        "key_creations_per_s": KEY_CREATIONS_PER_S,
        "shard_from_requests_per_s": SHARD_FROM_REQUESTS_PER_S,
    }


def _paper(algorithm: Algorithm, encoding: str, limit: int, users: int) -> PublishedClaim:
    return PublishedClaim(
        source="paper",
        algorithm=algorithm,
        limit=limit,
        users=users,
        bytes_per_user=claimed_bytes(algorithm, limit),
        encoding=encoding,
        key_length=_PAPER_KEY,
    )


def _digest(algorithm: Algorithm, encoding: str, limit: int, users: int, bytes_per_user: int) -> PublishedClaim:
    return PublishedClaim(
        source="digest",
        algorithm=algorithm,
        limit=limit,
        users=users,
        bytes_per_user=bytes_per_user,
        encoding=encoding,
        key_length=_PAPER_KEY,
    )


def _by_script(claim: PublishedClaim) -> PublishedClaim:
    return PublishedClaim(
        source=claim.source,
        algorithm=claim.algorithm,
        limit=claim.limit,
        users=claim.users,
        bytes_per_user=claim.bytes_per_user,
        encoding=SCRIPT,
        key_length=claim.key_length,
    )
