"""A headless Chromium, spoken to over a pipe in the DevTools protocol: no port, no driver, no library."""

import base64
import fcntl
import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

# The descriptors on which Chromium reads and writes when it is started with --remote-debugging-pipe.
_IN, _OUT = 3, 4
_ABOVE = 10
ANSWER_S = 60.0


class Chromium:
    """One browser with one page; end it with `close`."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self._to = map(_high, os.pipe())
        self._from, theirs_out = map(_high, os.pipe())
        argv = [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ]
        argv += ["--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        silent = os.open(os.devnull, os.O_RDWR)
        self._pid = os.posix_spawn(
            program,
            argv,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs_in, _IN),
                (os.POSIX_SPAWN_DUP2, theirs_out, _OUT),
                *((os.POSIX_SPAWN_DUP2, silent, stream) for stream in (0, 1, 2)),
            ],
            setpgroup=0,
        )
        for handle in (theirs_in, theirs_out, silent):
            os.close(handle)
        self._number = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Ask, and wait for the answer; what is heard meanwhile is kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (heard := self._hear()).get("id") != self._number:
            self.events.append(heard)
        assert "error" not in heard, heard
        result: dict[str, Any] = heard["result"]
        return result

    def show(self, url: str, *, width: int, scheme: str) -> None:
        """Load a page at a width, in the light or in the dark."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=url)
        while not self.heard("Page.loadEventFired"):
            self.events.append(self._hear())

    def heard(self, *methods: str) -> list[dict[str, Any]]:
        """Events of these names since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def evaluate(self, script: str) -> Any:
        """What an expression of the page's own world gives."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End it and everything it started."""
        self._session = None
        self.call("Browser.close")
        os.close(self._to)
        deadline_s = time.monotonic() + ANSWER_S
        while os.waitpid(self._pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline_s:
                os.killpg(self._pid, signal.SIGKILL)
            select.select([], [], [], 0.02)
        os.close(self._from)

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], ANSWER_S)
            assert ready, f"Chromium said nothing for {ANSWER_S:g} s"
            data = os.read(self._from, 1 << 16)
            assert data, "Chromium ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


def _high(handle: int) -> int:
    """The same, out of the way of the descriptors that the browser wants."""
    moved = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
    os.close(handle)
    return moved
