"""Rules in the fleet: immutable revisions, the pointer to the revision in force, and the history of the pointer."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rlctl.errors import NotFound, Refused, Unreachable
from rlctl.limits.rule import CHANNEL, HISTORY_KEY, POINTER_KEY, Revision, Version, read_revision, revision_key
from rlctl.system.redis import CommandFailed, InvalidReply, LinkFailure, NodeLink, Reply

KEPT_REVISIONS = 100
KEPT_HISTORY = 100
_LONGEST_NUMBER = 15
# One script, so that a killed client leaves either the old revision or the new one in force and published.
# The script compares the pointer first, because another operator may have moved it after rlctl read it.
_MOVE = """
local now = redis.call('HMGET', KEYS[1], 'revision', 'digest')
if (now[1] or '') ~= ARGV[1] or (now[2] or '') ~= ARGV[2] then return 0 end
if ARGV[5] ~= '' then
  redis.call('SET', KEYS[2], ARGV[5])
  -- Keeps the oldest revision if it was in force until now, because a rollback goes back to it.
  if now[1] ~= ARGV[9] then redis.call('UNLINK', KEYS[3]) end
  redis.call('HSET', KEYS[1], 'last', ARGV[3])
end
redis.call('HSET', KEYS[1], 'revision', ARGV[3], 'digest', ARGV[4])
redis.call('LPUSH', KEYS[4], ARGV[6])
redis.call('LTRIM', KEYS[4], 0, ARGV[7] - 1)
redis.call('PUBLISH', ARGV[8], ARGV[3])
return 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The revision in force, and the highest revision number that was ever used.

    `version` is None if the stored number is not valid; `held` has the stored revision and digest unparsed.
    """

    version: Version | None
    last: int
    held: tuple[str, str]

    def required(self) -> Version:
        """The version; Refused if it is not valid."""
        if self.version is None:
            raise Refused(
                f"the pointer to the rules in force is not valid: its revision is {self.held[0]!r:.80}",
                hint="`rlctl rules apply FILE` stores the rules again; until then services keep the rules they have",
            )
        return self.version


def read_pointer(link: NodeLink) -> Pointer | None:
    """Read the pointer; None if no rules were ever applied."""
    with redis_errors_as_failures(link):
        revision, digest, last = expect_texts(link, link.call("HMGET", POINTER_KEY, "revision", "digest", "last"), 3)
    if revision is None:
        return None
    held, number, highest = (revision, digest or ""), revision_number(revision), revision_number(last or revision)
    version = Version(revision=number, digest=held[1]) if number is not None else None
    if number is None or highest is None:
        highest = max(number or 0, highest or 0, *map(_entry_number, read_entries(link)))
    return Pointer(version=version, last=highest, held=held)


def revision_number(text: str) -> int | None:
    """Parse the revision number of a pointer; None if it is not a valid number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def stored_revision(link: NodeLink, number: int) -> Revision:
    """Read a stored revision; NotFound if it does not exist, Refused if it cannot be parsed."""
    with redis_errors_as_failures(link):
        [text] = expect_texts(link, [link.call("GET", revision_key(number))], 1)
    if text is None:
        raise NotFound(
            f"the fleet has no revision {number} of the rules",
            hint=f"the last {KEPT_REVISIONS} revisions are kept; `rlctl rules status` shows them",
        )
    try:
        return read_revision(text)
    except ValueError as failure:
        raise Refused(
            f"revision {number} of the rules cannot be read: {failure}",
            hint="a newer rlctl may have written it; `rlctl rules apply FILE` stores a new one",
        ) from failure


def store_revision(link: NodeLink, before: Pointer | None, revision: Revision, entry: Mapping[str, object]) -> None:
    """Store a revision and put it in force, in one atomic step."""
    _move(link, before, revision.version, revision.to_text(), entry)


def set_pointer(link: NodeLink, before: Pointer, to: Version, entry: Mapping[str, object]) -> None:
    """Put a stored revision in force again."""
    _move(link, before, to, "", entry)


def read_entries(link: NodeLink) -> tuple[dict[str, object], ...]:
    """The history of the pointer, newest entry first."""
    with redis_errors_as_failures(link):
        entries = expect_texts(link, link.call("LRANGE", HISTORY_KEY, 0, KEPT_HISTORY - 1))
    return tuple(_entry(text or "") for text in entries)


def expect_texts(link: NodeLink, reply: Reply, count: int | None = None) -> list[str | None]:
    """The reply as a list of `count` texts, None for each key that does not exist; InvalidReply on any other reply."""
    is_list = isinstance(reply, list) and count in {None, len(reply)}
    if not is_list or not all(one is None or isinstance(one, str) for one in reply):
        raise InvalidReply(f"{link.endpoint}: not {count or 'a list of'} texts: {reply!r:.80}")
    return list(reply)


def _entry(text: str) -> dict[str, object]:
    """Parse an entry of the history; the `why` of an unreadable entry says that it cannot be read."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        entry = None
    return entry if isinstance(entry, dict) else {"why": "an entry that cannot be read"}


def _entry_number(entry: Mapping[str, object]) -> int:
    number = entry.get("revision")
    return number if isinstance(number, int) else 0


def _move(link: NodeLink, before: Pointer | None, to: Version, document: str, entry: Mapping[str, object]) -> None:
    oldest = to.revision - KEPT_REVISIONS
    keys = (POINTER_KEY, revision_key(to.revision), revision_key(oldest), HISTORY_KEY)
    expected = before.held if before else ("", "")
    values = (*expected, to.revision, to.digest, document, json.dumps(entry), KEPT_HISTORY, CHANNEL, oldest)
    with redis_errors_as_failures(link):
        moved = link.call("EVAL", _MOVE, len(keys), *keys, *values)
    if not moved:
        raise Refused(
            "another operator changed the rules in the meantime; this change was not made",
            hint="`rlctl rules status` shows the last changes and their authors",
        )


@contextmanager
def redis_errors_as_failures(link: NodeLink) -> Iterator[None]:
    """Turn Redis errors into Unreachable or Refused with a hint."""
    try:
        yield
    except LinkFailure as failure:
        raise Unreachable(
            f"the primary that stores the rules failed: {failure}", hint="`rlctl rules status` shows the rules in force"
        ) from failure
    except CommandFailed as failure:
        raise Refused(
            f"{link.endpoint} refuses to store the rules: {failure}",
            hint="the rules are unchanged; `rlctl doctor` shows what is wrong",
        ) from failure
