"""Private user, network and process namespaces.

A fleet in such namespaces needs no root rights, and ends when its parent process ends.
"""

import contextlib
import fcntl
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from rlctl.errors import TimedOut, Unreachable
from rlctl.system.child import Child
from rlctl.system.process import Runner, find_program

_PROBE_S = 10.0
_NFT_S = 10.0
# Ordinary users may run the programs in these folders, but their PATH does not contain the folders.
_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_INTERFACE = struct.Struct("16sh22x")


def enter_argv(argv: Sequence[str]) -> list[str]:
    """The command line that runs a program in new namespaces. The kernel kills the program when its parent ends."""
    return [
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--user", "--map-root-user", "--net", "--pid", "--mount-proc"),
        *("--fork", "--kill-child=KILL", "--", *argv),
    ]


def why_unavailable(runner: Runner) -> str | None:
    """Why this machine cannot run a sandbox with its own packet filter; None if it can."""
    for program in ("unshare", "setpriv"):
        if find_program([program]) is None:
            return f"there is no {program} (package util-linux)"
    nft = find_nft()
    if nft is None:
        return "there is no nft (package nftables)"
    try:
        done = runner.run(enter_argv([nft, "add", "table", "inet", "rlctl_probe"]), timeout_s=_PROBE_S)
    except (Unreachable, TimedOut) as failure:
        return failure.message
    if done.code:
        return f"this machine refuses namespaces: {' '.join(done.errors.split()) or f'exit {done.code}'}"
    return None


def own_packet_filter(runner: Runner) -> "PacketFilter":
    """The packet filter of the current network namespace."""
    program = find_nft()
    if program is None:
        raise Unreachable("cannot partition the network: there is no nft", hint="install the package nftables")
    return PacketFilter(runner, [program])


def find_nft() -> str | None:
    """Path of nft; None if it is not installed."""
    beside = (str(Path(folder) / "nft") for folder in _SBIN)
    return find_program(["nft", *beside])


def raise_loopback() -> None:
    """Bring up the loopback interface, which is down in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        asked = fcntl.ioctl(channel, _SIOCGIFFLAGS, _INTERFACE.pack(b"lo", 0))
        _name, flags = _INTERFACE.unpack(asked)
        fcntl.ioctl(channel, _SIOCSIFFLAGS, _INTERFACE.pack(b"lo", flags | _IFF_UP))


class PacketFilter:
    """Applies nft rules. `prepare` starts nft (`program`) early, so that `apply` need not wait for the start of nft."""

    def __init__(self, runner: Runner, program: Sequence[str]) -> None:
        self._program = list(program)
        self._runner = runner
        self._waiting: Child | None = None

    def prepare(self) -> None:
        """Start nft for the next `apply`. The start takes tens of milliseconds on a busy machine."""
        if self._waiting is None:
            self._waiting = Child([*self._program, "-f", "-"], reads_output=False)

    def apply(self, rules: str) -> None:
        """Load the rules. Raises Unreachable with nft's error messages if nft refuses the rules."""
        self.prepare()
        child, self._waiting = self._waiting, None
        assert child is not None
        child.send_line(rules)
        child.close()
        code = child.wait(timeout_s=_NFT_S)
        child.end()
        if code:
            raise Unreachable(f"nft refuses the rules: {child.last_errors()}", hint="see `nft list ruleset`")

    def listing(self) -> str:
        """The current ruleset."""
        return self._runner.run([*self._program, "list", "ruleset"], timeout_s=_NFT_S).output

    def close(self) -> None:
        """End the nft process that `prepare` started."""
        if self._waiting is not None:
            with contextlib.suppress(TimedOut):
                self._waiting.end()
            self._waiting = None
