"""Programs of the machine, run to their end with a deadline; a failure shows what they said."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# A busy machine is slow, not broken.
PATIENCE_S = 300.0
POLL_S = 0.1
_SHOWN_CHARS = 2000
_POLICY = Path("/usr/sbin/policy-rc.d")
_APT = ("apt-get", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300")


class LabError(Exception):
    """The lab cannot be built here; the message says why."""


def run(*argv: str | Path, stdin: str | None = None, timeout_s: float = PATIENCE_S) -> str:
    """What the program prints; ending with anything but 0 is a LabError."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, input=stdin or "", capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise LabError(f"{' '.join(words)}: {failure}") from failure
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}".strip()[-_SHOWN_CHARS:]
        raise LabError(f"{' '.join(words)} ended with {done.returncode}:\n{said}")
    return done.stdout


def succeeds(*argv: str | Path) -> bool:
    """Whether the program is there and ends with 0."""
    try:
        run(*argv)
    except LabError:
        return False
    return True


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"not so after {timeout_s:g} s: {what}")
        time.sleep(POLL_S)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Say on stderr how long the block took."""
    started = time.monotonic()
    yield
    sys.stderr.write(f"lab: {what}: {time.monotonic() - started:.1f} s\n")
    sys.stderr.flush()


def may_change_this_machine() -> bool:
    """Whether packages may be installed and an engine be started here."""
    return os.geteuid() == 0 and (os.environ.get("CI") == "true" or os.environ.get("RLCTL_LAB") == "start")


def ensure_program(program: str, package: str) -> None:
    """Install the package that brings the program, without starting what else is in it."""
    if shutil.which(program):
        return
    if not (may_change_this_machine() and shutil.which("apt-get")):
        raise LabError(f"there is no {program} here; root with CI=true or RLCTL_LAB=start installs it on Debian")
    with timed(f"package {package}"), _no_service_starts():
        if not succeeds(*_install(package)):  # the lists may be missing, or older than the archive
            run(*_APT, "update")
            run(*_install(package))


def _install(package: str) -> Sequence[str]:
    return ("env", "DEBIAN_FRONTEND=noninteractive", *_APT, "install", "--no-install-recommends", package)


@contextmanager
def _no_service_starts() -> Iterator[None]:
    try:
        with _POLICY.open("x", encoding="utf-8") as policy:
            policy.write("#!/bin/sh\nexit 101\n")
    except FileExistsError:
        yield
        return
    try:
        _POLICY.chmod(0o755)
        yield
    finally:
        _POLICY.unlink()
