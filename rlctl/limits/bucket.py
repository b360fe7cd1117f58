"""Selects the identities of a canary.

A higher share keeps the selected identities and adds more. Each rule selects its own identities. Pure.
"""

import hashlib

WHOLE = 10_000


def bucket(rule_id: str, identity: str) -> int:
    """Return the bucket of an identity for a rule, from 0 to 9999; `identity` is the text before encoding."""
    text = f"{rule_id}:{identity}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha1(text, usedforsecurity=False).digest()[:4], "big") % WHOLE


def takes_part(rule_id: str, identity: str, share: int) -> bool:
    """Return whether an identity is in the canary of a rule; `share` of every 10,000 identities take part."""
    return bucket(rule_id, identity) < share
