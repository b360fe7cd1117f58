"""Who takes part in a canary: the same people and more at a higher percentage, others for each rule. Pure."""

import hashlib

WHOLE = 10_000


def bucket(rule_id: str, identity: str) -> int:
    """One of 10,000 buckets, by the identity as it was typed."""
    text = f"{rule_id}:{identity}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha1(text, usedforsecurity=False).digest()[:4], "big") % WHOLE


def takes_part(rule_id: str, identity: str, share: int) -> bool:
    """Whether an identity is among so many of 10,000."""
    return bucket(rule_id, identity) < share
