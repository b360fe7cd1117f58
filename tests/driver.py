"""Drives the real rlctl binary on a fleet, wherever its servers are."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml
from redis import Redis

from tests.fork_server import ForkServer, needs_a_real_start

# A busy machine is slow, not broken: every wait in a test may take this long.
PATIENCE_S = 300.0
# What may take a while on quiet machines: a drill beside a fleet on hosts, with the twin's deploy and removal.
COMMAND_S = 1800.0
POLL_S = 0.05
# What an operator may have set must not reach the fleets of a test.
OPERATORS = {"RLCTL_TOPOLOGY", "RLCTL_SECRETS", "RLCTL_REDIS_SERVER", "NO_COLOR"}


class Start(Protocol):
    """Runs `python -m rlctl` with these words to its end."""

    def __call__(
        self, words: Sequence[str], *, folder: Path, env: Mapping[str, str], stdin: str | None, timeout_s: float
    ) -> "subprocess.CompletedProcess[str]": ...


def real_start(
    words: Sequence[str], *, folder: Path, env: Mapping[str, str], stdin: str | None, timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """A new interpreter, as an operator's shell starts it."""
    return subprocess.run(
        [sys.executable, "-m", "rlctl", *words],
        cwd=folder,
        env=env,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@dataclass(slots=True)
class Starter:
    """How commands of fleets start in this worker."""

    start: Start


STARTER = Starter(start=ForkServer().run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One finished command."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The result on stdout."""
        return json.loads(self.out)

    def error(self) -> dict[str, str]:
        """The error object on stderr, the last line there."""
        return json.loads(self.err.strip().splitlines()[-1])["error"]


@dataclass(slots=True, kw_only=True)
class Fleet:
    """A topology file in a folder, an RLCTL_HOME beside it, and the binary that works on them."""

    folder: Path
    document: dict[str, Any]
    extra_env: dict[str, str] = field(default_factory=dict)
    _logins: dict[tuple[str, bytes, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.document["name"]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def file(self) -> Path:
        return self.folder / "topology.yaml"

    @property
    def base_port(self) -> int:
        return self.document["local"]["base_port"]

    def node_folder(self, name: str) -> Path:
        return self.home / "fleets" / self.name / "nodes" / name

    def write(self) -> None:
        """Write the topology file again after `document` was changed."""
        self.file.write_text(yaml.safe_dump(self.document), encoding="utf-8")

    def env(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in OPERATORS}
        return {**own, "RLCTL_HOME": str(self.home), **self.extra_env}

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "rlctl", "-f", str(self.file), *words]

    def run(self, *words: str, expect: int | None = 0, stdin: str | None = None, **more_env: str) -> Ran:
        """Run a command on this fleet to its end; a code other than `expect` fails the test with what it said."""
        return self.run_bare("-f", str(self.file), *words, expect=expect, stdin=stdin, **more_env)

    def run_bare(self, *words: str, expect: int | None = 0, stdin: str | None = None, **more_env: str) -> Ran:
        """The same without naming the topology file."""
        start = real_start if needs_a_real_start(self.extra_env | more_env) else STARTER.start
        done = start(words, folder=self.folder, env=self.env() | more_env, stdin=stdin, timeout_s=COMMAND_S)
        ran = Ran(code=done.returncode, out=done.stdout, err=done.stderr)
        if expect is not None:
            assert ran.code == expect, f"rlctl {' '.join(words)} ended with {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def spawn(self, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start a command and leave it running; the test ends it by its pid."""
        return subprocess.Popen(
            self.argv(*words),
            cwd=self.folder,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def deploy(self, *words: str, expect: int | None = 0) -> Ran:
        return self.run("deploy", "--yes", "-o", "json", *words, expect=expect)

    def status(self, expect: int | None = 0) -> dict[str, Any]:
        """How the fleet stands; where it must be well, what a busy machine made of it for a moment may pass."""
        waiting = ["--wait"] if expect == 0 else []
        return self.run("status", *waiting, "-o", "json", expect=expect).json()

    def access(self, who: str = "admin") -> dict[str, Any]:
        """What `rlctl env` prints."""
        return self.run("env", "--as", who, "-o", "json").json()

    def _login(self, who: str) -> dict[str, Any]:
        """The same, asked for once while topology and secrets stay what they are; who is primary may be out of date."""
        secrets = self.extra_env.get("RLCTL_SECRETS", self.home / "fleets" / self.name / "secrets.json")
        key = (who, self.file.read_bytes(), Path(secrets).stat().st_mtime_ns)
        if key not in self._logins:
            self._logins[key] = self.access(who)
        return self._logins[key]

    def connect(self, name: str, who: str = "admin", access: dict[str, Any] | None = None) -> Redis:
        """A plain client of one node, with the credentials that `rlctl env` prints, or printed before."""
        access = access or self._login(who)
        kind, _, index = name.partition("-")
        port = self.base_port + int(index) + (1000 if kind == "sentinel" else 0)
        endpoints = [where.split(":") for where in (*access["nodes"], *access["sentinels"])]
        options: dict[str, Any] = {"ssl": True, "ssl_ca_certs": access["ca"]} if access["tls"] else {}
        return Redis(
            host=next(host for host, where in endpoints if int(where) == port),
            port=port,
            username=access["username"],
            password=access["password"],
            decode_responses=True,
            **options,
        )


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so after {timeout_s:g} s: {what}"
        time.sleep(POLL_S)
