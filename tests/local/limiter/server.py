"""A server with the shipped scripts loaded."""

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import ConnectionError as RedisConnectionError
from redis import Redis, ResponseError

from rlctl.limits.release import Release
from rlctl.scripts.release import load_release
from tests.local.driver import PATIENCE_S, wait_for
from tests.local.ports import next_base_port

Argument = str | bytes | int
# 2026-10-09 00:00 in microseconds: the start of a second, a minute, an hour and a day.
T0 = 1_791_504_000_000_000
MS, SECOND, MINUTE = 1_000, 1_000_000, 60_000_000
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Limiter:
    """Calls the scripts by SHA1, as the runtime does."""

    client: "Redis"
    release: Release
    port: int
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def version(self) -> str:
        """`valkey 8.1.1`, `redis 7.0.15`."""
        info: dict[str, Any] = self.client.info("server")
        if info.get("server_name") == "valkey":
            return f"valkey {info['valkey_version']}"
        return f"redis {info['redis_version']}"

    def fresh_key(self) -> str:
        return f"rl:{{user=u{next(self._numbers)}}}:test"

    def sha1(self, script: str) -> str:
        found = self.release.script(script)
        assert found is not None
        return found.sha1

    def call(self, script: str, key: str, *args: Argument) -> list[int]:
        """One decision; an error of the script is raised."""
        return self.client.evalsha(self.sha1(script), 1, key, *args)

    def refusal(self, script: str, key: str, *args: Argument) -> str:
        """The error of this call, or its reply if it has none."""
        try:
            return f"answered {self.call(script, key, *args)}"
        except ResponseError as error:
            return str(error)

    def state(self, key: str) -> tuple[bytes | None, int]:
        """The state that a call could change: the value and its expiry."""
        return self.client.dump(key), self.client.pexpiretime(key)

    def now_us(self) -> int:
        seconds, microseconds = self.client.time()
        return seconds * SECOND + microseconds

    def copy(self, key: str) -> str:
        """Copy the state to another key for a trial call."""
        other = self.fresh_key()
        self.client.copy(key, other)
        return other


@contextmanager
def running_limiter(program: str, folder: Path) -> Iterator[Limiter]:
    """Starts the server on a free loopback port; ends it by its pid."""
    port = next_base_port()
    argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    client = Redis(host="127.0.0.1", port=port, socket_timeout=PATIENCE_S)
    try:
        wait_for(lambda: process.poll() is not None or _answers(client), "an answer of the plain server")
        assert process.poll() is None, (folder / "server.log").read_text(encoding="utf-8", errors="replace")
        release = load_release()
        for script in release.scripts:
            assert client.script_load(script.source.decode("ascii")) == script.sha1
        yield Limiter(client=client, release=release, port=port)
    finally:
        client.close()
        process.kill()
        process.wait(timeout=PATIENCE_S)


def _answers(client: "Redis") -> bool:
    try:
        return client.ping()
    except RedisConnectionError:
        return False
