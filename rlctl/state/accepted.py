"""Records with which directives servers have started, so that this machine tries each set of directives only once."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rlctl.errors import Unreachable
from rlctl.system.files import read_damaged, write_private

# The largest number of digests in the file. One machine needs far fewer. Above this number `add` drops the oldest ones.
_KEPT = 200


class AcceptedDirectives:
    """A file with a digest of each set of directives that a server accepted.

    For a set without a digest in the file, rlctl starts a server to find out whether the server accepts the directives.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def holds(self, *parts: object) -> bool:
        """Whether `add` was called with the same server and directives."""
        return _digest(parts) in self._known()

    def add(self, *parts: object) -> None:
        """Record that a server started with these directives. Does nothing if RLCTL_HOME does not exist yet."""
        if not self._path.parent.is_dir():
            return
        found = dict.fromkeys((*self._known(), _digest(parts)))
        # If the file cannot be written, the directives are tried again next time.
        with suppress(Unreachable):
            write_private(self._path, json.dumps(list(found)[-_KEPT:]) + "\n")

    def _known(self) -> tuple[str, ...]:
        try:
            found = json.loads(read_damaged(self._path))
        except (ValueError, Unreachable):
            return ()
        return tuple(map(str, found)) if isinstance(found, list) else ()


def _digest(parts: Iterable[object]) -> str:
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()
