"""Which directives which server has started with: asked once, remembered for all fleets of this machine."""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rlctl.errors import Unreachable
from rlctl.system.files import read_damaged, write_private

# Many more than the fleets and servers of one machine; the oldest are forgotten.
_KEPT = 200


class Accepted:
    """A short list of digests in one file; losing it costs a start of a server each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def holds(self, *parts: object) -> bool:
        """Whether this server and these directives were seen to fit."""
        return _digest(parts) in self._known()

    def add(self, *parts: object) -> None:
        """Remember them; a dry run on a machine without RLCTL_HOME makes none."""
        if not self._path.parent.is_dir():
            return
        found = dict.fromkeys((*self._known(), _digest(parts)))
        # What cannot be remembered is asked again.
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
