"""A root shell on another machine that stays open, so that a drill makes a fault without the delay of a log-in."""

from collections.abc import Sequence

from rlctl.errors import Unreachable
from rlctl.system.child import Child

ANSWER_S = 30.0
# sudo may be missing on a machine where the ssh user is root.
COMMAND = 'if [ "$(id -u)" = 0 ]; then exec sh; else exec sudo -n sh; fi'
_END = "rlctl-end"


class RootShell:
    """Runs small scripts one after another in one shell."""

    def __init__(self, argv: Sequence[str], where: str) -> None:
        self._where = where
        self._child = Child(argv)
        self._asked = 0

    def run(self, script: str) -> str:
        """Run a script and return its output. Raises Unreachable if the script fails or the connection ends."""
        self._asked += 1
        # The number shows which script ended, because the output of an earlier script that timed out may arrive only
        # now.
        end = f"{_END} {self._asked} "
        self._child.send_line(f"( {script}\n) 2>&1 </dev/null; code=$?; echo; echo {end}$code")
        lines: list[str] = []
        while (line := self._child.read_line(timeout_s=ANSWER_S)) is not None:
            if line.startswith(end):
                said = "\n".join(lines).strip()
                if line != f"{end}0":
                    raise Unreachable(f"{self._where}: {said or line}", hint="run the same commands there as root")
                return said
            lines = [] if line.startswith(f"{_END} ") else [*lines, line]
        raise Unreachable(
            f"{self._where}: {self._child.last_errors() or 'the connection ended'}", hint="try ssh by hand"
        )

    def close(self) -> None:
        self._child.end()
