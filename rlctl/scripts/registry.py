"""What the fleet itself remembers of its releases: the one in force, and the last hundred changes."""

import json
from collections.abc import Mapping

from rlctl.observe import parse
from rlctl.scripts.drift import Registered
from rlctl.system.redis import NodeLink

RELEASE_KEY = "rlctl:{scripts}"
HISTORY_KEY = "rlctl:{history}"
KEPT = 100


def read_registered(link: NodeLink) -> Registered | None:
    """The release in force, or None where none was ever applied."""
    fields = parse.pairs(link.call("HGETALL", RELEASE_KEY))
    if not fields:
        return None
    return Registered(release=fields.get("release", ""), digest=fields.get("digest", ""), state=fields.get("state", ""))


def write_registered(link: NodeLink, registered: Registered) -> None:
    """Say which release is in force and how it stands: pending, applied or dirty."""
    fields = {"release": registered.release, "digest": registered.digest, "state": registered.state}
    link.call("HSET", RELEASE_KEY, *(word for pair in fields.items() for word in pair))


def remember(link: NodeLink, summary: Mapping[str, object]) -> None:
    """Add a summary to the fleet's history; the oldest beyond a hundred go."""
    link.pipeline([("LPUSH", HISTORY_KEY, json.dumps(summary, sort_keys=True)), ("LTRIM", HISTORY_KEY, 0, KEPT - 1)])


def read_history(link: NodeLink, kind: str) -> tuple[dict[str, object], ...]:
    """The summaries of one kind, newest first; what is not ours to read is passed over."""
    found = []
    for text in link.call("LRANGE", HISTORY_KEY, 0, KEPT - 1):
        try:
            entry = json.loads(text)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("kind") == kind:
            found.append(entry)
    return tuple(found)
