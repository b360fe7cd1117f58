"""Records that the fleet itself stores: the release of scripts in force, and the last 100 changes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rlctl.errors import Refused, Unreachable
from rlctl.limits.release import Registered
from rlctl.observe import parse
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink

RELEASE_KEY = "rlctl:{scripts}"
HISTORY_KEY = "rlctl:{history}"
KEPT = 100


def read_registered(link: NodeLink) -> Registered | None:
    """Return the release in force, or None if none was ever applied."""
    with _failures_translated(link):
        fields = parse.pairs(link.call("HGETALL", RELEASE_KEY))
    if not fields:
        return None
    return Registered(release=fields.get("release", ""), digest=fields.get("digest", ""), state=fields.get("state", ""))


def write_registered(link: NodeLink, registered: Registered) -> None:
    """Store the release in force and its state: pending, applied or dirty."""
    fields = {"release": registered.release, "digest": registered.digest, "state": registered.state}
    with _failures_translated(link):
        link.call("HSET", RELEASE_KEY, *(word for pair in fields.items() for word in pair))


def add_to_history(link: NodeLink, summary: Mapping[str, object]) -> None:
    """Add an entry to the fleet's history, which keeps the newest 100."""
    with _failures_translated(link):
        link.call("LPUSH", HISTORY_KEY, json.dumps(summary, sort_keys=True))
        link.call("LTRIM", HISTORY_KEY, 0, KEPT - 1)


def read_history(link: NodeLink, kind: str) -> tuple[dict[str, object], ...]:
    """Return the entries of one kind, newest first; entries that cannot be parsed are skipped."""
    with _failures_translated(link):
        texts = link.call("LRANGE", HISTORY_KEY, 0, KEPT - 1)
    found = []
    for text in texts:
        try:
            entry = json.loads(text)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("kind") == kind:
            found.append(entry)
    return tuple(found)


@contextmanager
def _failures_translated(link: NodeLink) -> Iterator[None]:
    """Raise Unreachable or Refused with the reason why the server cannot store or return a record."""
    try:
        yield
    except LinkFailure as failure:
        raise Unreachable(
            f"the primary that stores the registry failed: {failure}", hint="`rlctl status` shows the fleet"
        ) from failure
    except CommandFailed as failure:
        raise Refused(
            f"{link.endpoint} refuses to store the registry: {failure}", hint="`rlctl doctor` shows what is wrong there"
        ) from failure
