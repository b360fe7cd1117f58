"""What the fleet itself remembers of its releases: the one in force, and the last hundred changes."""

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
    """The release in force, or None where none was ever applied."""
    with _failures_translated(link):
        fields = parse.pairs(link.call("HGETALL", RELEASE_KEY))
    if not fields:
        return None
    return Registered(release=fields.get("release", ""), digest=fields.get("digest", ""), state=fields.get("state", ""))


def write_registered(link: NodeLink, registered: Registered) -> None:
    """Say which release is in force and how it stands: pending, applied or dirty."""
    fields = {"release": registered.release, "digest": registered.digest, "state": registered.state}
    with _failures_translated(link):
        link.call("HSET", RELEASE_KEY, *(word for pair in fields.items() for word in pair))


def add_to_history(link: NodeLink, summary: Mapping[str, object]) -> None:
    """Add a summary to the fleet's history; the oldest beyond a hundred go."""
    with _failures_translated(link):
        link.call("LPUSH", HISTORY_KEY, json.dumps(summary, sort_keys=True))
        link.call("LTRIM", HISTORY_KEY, 0, KEPT - 1)


def read_history(link: NodeLink, kind: str) -> tuple[dict[str, object], ...]:
    """The summaries of one kind, newest first; what is not ours to read is passed over."""
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
    """A server that cannot remember says why: full, without its replicas, or gone."""
    try:
        yield
    except LinkFailure as failure:
        raise Unreachable(
            f"the registry's primary failed: {failure}", hint="`rlctl status` shows how the fleet stands"
        ) from failure
    except CommandFailed as failure:
        raise Refused(
            f"{link.endpoint} refuses to keep the registry: {failure}", hint="`rlctl doctor` shows what is wrong there"
        ) from failure
