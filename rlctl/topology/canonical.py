"""A topology as plain JSON values, and its fingerprint."""

import hashlib
import json
from dataclasses import asdict

from rlctl.topology.model import Topology


def to_json(topology: Topology) -> dict[str, object]:
    """Every setting in base units, with sorted keys. Equal topologies give equal JSON."""
    values = asdict(topology) | {"redis": dict(topology.redis)}
    plain: dict[str, object] = json.loads(json.dumps(values, sort_keys=True))
    return plain


def fingerprint(topology: Topology) -> str:
    """SHA-256 of the canonical JSON. A saved plan contains it, so that a changed topology makes the plan stale."""
    text = json.dumps(to_json(topology), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
