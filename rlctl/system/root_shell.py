"""A shell as root on another machine that waits for commands: a fault must not wait for a log-in."""

from collections.abc import Sequence

from rlctl.errors import Unreachable
from rlctl.system.child import Child

ANSWER_S = 30.0
# Root needs no sudo, and may have none.
COMMAND = 'if [ "$(id -u)" = 0 ]; then exec sh; else exec sudo -n sh; fi'
_END = "rlctl-end"


class RootShell:
    """Runs small scripts one after another; each answers with what it printed, or fails by name."""

    def __init__(self, argv: Sequence[str], where: str) -> None:
        self._where = where
        self._child = Child(argv)
        self._asked = 0

    def run(self, script: str) -> str:
        """What the script printed; a script that fails, or a connection that is gone, is Unreachable."""
        self._asked += 1
        # Numbered, so that a late answer to an earlier script is never taken for one to this.
        end = f"{_END} {self._asked} "
        self._child.send_line(f"( {script}\n) 2>&1 </dev/null; code=$?; echo; echo {end}$code")
        lines: list[str] = []
        while (line := self._child.read_line(timeout_s=ANSWER_S)) is not None:
            if line.startswith(end):
                said = "\n".join(lines).strip()
                if line != f"{end}0":
                    raise Unreachable(f"{self._where}: {said or line}", hint="try the same by hand there, as root")
                return said
            lines = [] if line.startswith(f"{_END} ") else [*lines, line]
        raise Unreachable(
            f"{self._where}: {self._child.last_errors() or 'the connection ended'}", hint="try ssh by hand"
        )

    def close(self) -> None:
        """Hang up."""
        self._child.end()
