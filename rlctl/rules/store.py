"""Rules in the fleet: immutable revisions, the pointer to the one in force, and who moved it when."""

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
# Everything or nothing: whoever is killed around it leaves the old revision in force, or the new one, announced.
# Only from the pointer that the change was made for: another operator may have been quicker.
_MOVE = """
local now = redis.call('HMGET', KEYS[1], 'revision', 'digest')
if (now[1] or '') ~= ARGV[1] or (now[2] or '') ~= ARGV[2] then return 0 end
if ARGV[5] ~= '' then
  redis.call('SET', KEYS[2], ARGV[5])
  -- An old revision that was in force until now is what a rollback goes back to.
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
    """Which revision is in force, and the highest number that was ever given.

    `version` is None where the server holds something that is no number; `held` is what it holds, word for word.
    """

    version: Version | None
    last: int
    held: tuple[str, str]

    def required(self) -> Version:
        """The version; Refused where it cannot be read."""
        if self.version is None:
            raise Refused(
                f"the pointer to the rules in force cannot be read: revision is {self.held[0]!r:.80}",
                hint="`rlctl rules apply FILE` stores the rules again; services keep the last good ones until then",
            )
        return self.version


def read_pointer(link: NodeLink) -> Pointer | None:
    """The pointer; None where no rules were ever applied."""
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
    """The number of a revision as the pointer holds it; None where it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def stored_revision(link: NodeLink, number: int) -> Revision:
    """A stored revision; NotFound where it is gone, Refused where it cannot be read."""
    with redis_errors_as_failures(link):
        [text] = expect_texts(link, [link.call("GET", revision_key(number))], 1)
    if text is None:
        raise NotFound(
            f"the fleet holds no revision {number} of the rules",
            hint=f"the last {KEPT_REVISIONS} are kept; `rlctl rules status` shows them",
        )
    try:
        return read_revision(text)
    except ValueError as failure:
        raise Refused(
            f"revision {number} of the rules cannot be read: {failure}",
            hint="a newer rlctl may have written it; `rlctl rules apply FILE` stores a new one",
        ) from failure


def store_revision(link: NodeLink, before: Pointer | None, revision: Revision, entry: Mapping[str, object]) -> None:
    """Store a revision and put it in force, in one step."""
    _move(link, before, revision.version, revision.to_text(), entry)


def set_pointer(link: NodeLink, before: Pointer, to: Version, entry: Mapping[str, object]) -> None:
    """Put a stored revision in force again."""
    _move(link, before, to, "", entry)


def read_entries(link: NodeLink) -> tuple[dict[str, object], ...]:
    """Who moved the pointer, newest first."""
    with redis_errors_as_failures(link):
        entries = expect_texts(link, link.call("LRANGE", HISTORY_KEY, 0, KEPT_HISTORY - 1))
    return tuple(_entry(text or "") for text in entries)


def expect_texts(link: NodeLink, reply: Reply, count: int | None = None) -> list[str | None]:
    """The reply as so many texts, None for each that is not stored; InvalidReply where it is anything else."""
    is_list = isinstance(reply, list) and count in {None, len(reply)}
    if not is_list or not all(one is None or isinstance(one, str) for one in reply):
        raise InvalidReply(f"{link.endpoint}: not {count or 'a list of'} texts: {reply!r:.80}")
    return list(reply)


def _entry(text: str) -> dict[str, object]:
    """One entry; what is none says so in its place."""
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
            "the rules were changed by somebody else in the meantime; nothing was done",
            hint="`rlctl rules status` shows who it was",
        )


@contextmanager
def redis_errors_as_failures(link: NodeLink) -> Iterator[None]:
    """A server that cannot keep or show the rules says why: full, without its replicas, or gone."""
    try:
        yield
    except LinkFailure as failure:
        raise Unreachable(
            f"the primary that keeps the rules failed: {failure}", hint="`rlctl rules status` shows what is in force"
        ) from failure
    except CommandFailed as failure:
        raise Refused(
            f"{link.endpoint} refuses to keep the rules: {failure}",
            hint="the rules are as they were; `rlctl doctor` shows what is wrong there",
        ) from failure
