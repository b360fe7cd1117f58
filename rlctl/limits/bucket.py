"""Which identities take part in a canary. A higher share adds identities; each rule has its own selection. Pure."""

import hashlib

WHOLE = 10_000


def bucket(rule_id: str, identity: str) -> int:
    """The bucket of an identity for a rule, from 0 to 9999; `identity` is not encoded."""
    text = f"{rule_id}:{identity}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha1(text, usedforsecurity=False).digest()[:4], "big") % WHOLE


def takes_part(rule_id: str, identity: str, share: int) -> bool:
    """Whether an identity is in the canary of a rule; `share` is of 10,000."""
    return bucket(rule_id, identity) < share
