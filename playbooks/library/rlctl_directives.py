"""Ansible module: tries directives on the host's server program, before the playbook changes files of the fleet."""

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_directives
short_description: Check directives on the server that will use them
description:
  - Starts C(server) once with C(directives), without a port, in a private folder, and ends it as soon as it is ready.
  - Starts it again for each directive that it refuses, so that the result names all of them.
  - Changes nothing, so it works in check mode too. Checks nothing if C(server) is not installed yet.
options:
  server: {type: path, required: true, description: path of the server program}
  directives: {type: list, elements: str, required: true, description: "lines of a configuration file, without secrets"}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Check directives
  rlctl_directives: {server: /usr/bin/redis-server, directives: [hz 50]}
"""

RETURN = r"""
refused: {type: dict, returned: always, description: "the server's error, by directive"}
"""

_OWN = (
    *("port 0", "unixsocket trial.sock", "unixsocketperm 700", 'save ""', "appendonly no", "loglevel notice"),
    *('logfile ""', "daemonize no"),
)
_READY = "ready to accept connections"
_REFUSED = re.compile(r"^>>> '([^\s']+).*'\n(.+)", re.MULTILINE)
_STAMP = re.compile(r"^\d+:[A-Z] \d{1,2} \w{3} \d{4} [\d:.]+ [#*.-] ")
_START_S = 30.0
_POLL_S = 0.005
_MOST_MEMORY_BYTES = 4 * 1024**3
_PR_SET_PDEATHSIG = 1


class Trial:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.server: str = module.params["server"]

    def refused(self, directives: list[str]) -> dict[str, str]:
        """The directives that the server refuses, each with the server's error."""
        found: dict[str, str] = {}
        left = list(directives)
        while not _is_ready(output := self.start(left)):
            blamed = _REFUSED.search(output)
            wrong = [line for line in left if blamed and line.split(" ")[0] == blamed.group(1).lower()]
            if not blamed or not wrong:
                return found | self._refused_alone(left, output)
            found[wrong[0].split(" ")[0]] = blamed.group(2)
            left.remove(wrong[0])
        return found

    def _refused_alone(self, directives: list[str], output: str) -> dict[str, str]:
        """Like `refused`, by one start for each directive: some errors name no line (Redis 8: unknown names)."""
        if not _is_ready(bare := self.start([])):
            self.module.fail_json(msg=f"{self.server} does not start without directives either: {_last(bare)}")
        alone = {line.split(" ")[0]: self.start([line]) for line in directives}
        found = {name: _last(text) for name, text in alone.items() if not _is_ready(text)}
        if not found:
            self.module.fail_json(msg=f"{self.server} does not start with the section `redis`: {_last(output)}")
        return found

    def start(self, directives: list[str]) -> str:
        """Start the server with these directives; returns its output until it was ready or ended."""
        with tempfile.TemporaryDirectory(prefix="rlctl-trial-") as name:
            folder = Path(name)
            (folder / "trial.conf").write_text("\n".join([*directives, *_OWN, ""]), encoding="utf-8")
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    [self.server, "trial.conf"],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_bounded(),  # noqa: PLW1509  calls into the kernel, in a process without threads
                )
            try:
                return self._await(process, folder / "log")
            finally:
                process.kill()
                process.wait()

    def _await(self, process: "subprocess.Popen[bytes]", log: Path) -> str:
        deadline = time.monotonic() + _START_S
        while True:
            has_ended = process.poll() is not None
            output = log.read_text(encoding="utf-8", errors="replace")
            if has_ended or _is_ready(output):
                return output
            if time.monotonic() > deadline:
                self.module.fail_json(msg=f"{self.server} is not ready after {_START_S:g} s: {_last(output)}")
            time.sleep(_POLL_S)


def _bounded() -> Callable[[], None]:
    """A preexec_fn that limits the server's memory and lets the kernel kill it when this module ends."""
    prctl = ctypes.CDLL(None).prctl if sys.platform.startswith("linux") else None
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = _MOST_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MOST_MEMORY_BYTES, hard)

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return bound


def _is_ready(output: str) -> bool:
    return _READY in output.lower()


def _last(output: str) -> str:
    """The last line of the output before any crash report, without its time stamp."""
    lines = [line.strip() for line in output.partition("BUG REPORT START")[0].splitlines()]
    printed = [line for line in lines if line and not line.startswith("===")]
    return _STAMP.sub("", printed[-1]) if printed else "it printed nothing"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "server": {"type": "path", "required": True},
            "directives": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    server, directives = module.params["server"], module.params["directives"]
    if not os.access(server, os.X_OK):
        module.exit_json(changed=False, refused={}, msg=f"{server} is not installed yet: nothing was checked")
    refused = Trial(module).refused(directives)
    if refused:
        errors = "; ".join(f"redis.{name}: {error}" for name, error in refused.items())
        module.fail_json(
            msg=f"{server} does not start with {errors}. Correct the topology's section `redis` and run again",
            refused=refused,
        )
    module.exit_json(changed=False, refused={})


if __name__ == "__main__":
    main()
