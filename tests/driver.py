"""Run the real rlctl binary on a fleet of any target."""

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

# The limit of every wait in a test. A busy machine is slow, not broken.
PATIENCE_S = 300.0
# The limit of slow commands, such as a drill with the deploy and removal of its twin.
COMMAND_S = 1800.0
POLL_S = 0.05
# Variables that an operator may have set, which must not reach the fleets of a test.
OPERATORS = {"RLCTL_TOPOLOGY", "RLCTL_SECRETS", "RLCTL_REDIS_SERVER", "NO_COLOR"}


class Start(Protocol):
    """Runs `python -m rlctl` with these words and waits for its end."""

    def __call__(
        self, words: Sequence[str], *, folder: Path, env: Mapping[str, str], stdin: str | None, timeout_s: float
    ) -> "subprocess.CompletedProcess[str]": ...


def real_start(
    words: Sequence[str], *, folder: Path, env: Mapping[str, str], stdin: str | None, timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Start a new interpreter, as an operator's shell does."""
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
    """How this worker starts commands."""

    start: Start


STARTER = Starter(start=ForkServer().run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One finished command."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The JSON document on stdout."""
        return json.loads(self.out)

    def error(self) -> dict[str, str]:
        """The error object in the last line of stderr."""
        return json.loads(self.err.strip().splitlines()[-1])["error"]


@dataclass(slots=True, kw_only=True)
class Fleet:
    """A topology file, an RLCTL_HOME beside it, and the commands that run on them."""

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
        """Write `document` to the topology file."""
        self.file.write_text(yaml.safe_dump(self.document), encoding="utf-8")

    def env(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in OPERATORS}
        return {**own, "RLCTL_HOME": str(self.home), **self.extra_env}

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "rlctl", "-f", str(self.file), *words]

    def run(self, *words: str, expect: int | None = 0, stdin: str | None = None, **more_env: str) -> Ran:
        """Run a command on this fleet. A code other than `expect` fails the test and shows the output."""
        return self.run_bare("-f", str(self.file), *words, expect=expect, stdin=stdin, **more_env)

    def run_bare(self, *words: str, expect: int | None = 0, stdin: str | None = None, **more_env: str) -> Ran:
        """Run a command without -f."""
        start = real_start if needs_a_real_start(self.extra_env | more_env) else STARTER.start
        done = start(words, folder=self.folder, env=self.env() | more_env, stdin=stdin, timeout_s=COMMAND_S)
        ran = Ran(code=done.returncode, out=done.stdout, err=done.stderr)
        if expect is not None:
            assert ran.code == expect, f"rlctl {' '.join(words)} ended with {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def spawn(self, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start a command without waiting. The test ends it by its pid."""
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
        """The state of the fleet. If it must be healthy, a short disturbance by a busy machine may pass first."""
        waiting = ["--wait"] if expect == 0 else []
        return self.run("status", *waiting, "-o", "json", expect=expect).json()

    def access(self, who: str = "admin") -> dict[str, Any]:
        """The output of `rlctl env`."""
        return self.run("env", "--as", who, "-o", "json").json()

    def _login(self, who: str) -> dict[str, Any]:
        """The output of `rlctl env`, cached until the topology or the secrets change. Roles may be out of date."""
        secrets = self.extra_env.get("RLCTL_SECRETS", self.home / "fleets" / self.name / "secrets.json")
        key = (who, self.file.read_bytes(), Path(secrets).stat().st_mtime_ns)
        if key not in self._logins:
            self._logins[key] = self.access(who)
        return self._logins[key]

    def connect(self, name: str, who: str = "admin", access: dict[str, Any] | None = None) -> Redis:
        """A client of one node, with the credentials from `rlctl env`."""
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
    """Poll until the condition is true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so after {timeout_s:g} s: {what}"
        time.sleep(POLL_S)
