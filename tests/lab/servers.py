"""Server programs of Debian trixie that run on this machine without containers: `python -m tests.lab.servers redis`.

Their packages and the libraries below them lie in a folder of their own. Nothing is installed, and root is not needed.
"""

import argparse
import fcntl
import sys
from pathlib import Path

from tests.lab.images import cache
from tests.lab.shell import LabError, run, timed

FLAVORS = ("redis", "valkey")
_RELEASE = "trixie"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def server(flavor: str) -> Path:
    """A program that can stand in RLCTL_REDIS_SERVER; made where it is missing."""
    folder = cache() / f"servers-{_RELEASE}"
    folder.mkdir(exist_ok=True)
    program = folder / f"{flavor}-server"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            with timed(f"{flavor}-server of {_RELEASE}"):
                _make(flavor, folder / flavor, program)
    return program


def _make(flavor: str, folder: Path, program: Path) -> None:
    root = folder / "root"
    for package in _download(f"{flavor}-tools", folder / "apt"):
        run("dpkg-deb", "--extract", package, root)
    # One program in several; it is told by its name which of them it is.
    binary = root / "usr" / "bin" / program.name
    binary.unlink(missing_ok=True)
    binary.symlink_to(f"{flavor}-check-rdb")
    (loader,) = root.glob("usr/lib/*/ld-linux-*.so.*")
    # The libraries of this machine are those of another release.
    script = f'#!/bin/sh\nexec {loader} --library-path {loader.parent} {binary} "$@"\n'
    unfinished = program.with_suffix(".new")
    unfinished.write_text(script, encoding="utf-8")
    unfinished.chmod(0o755)
    run(unfinished, "--version")
    unfinished.rename(program)


def _download(package: str, folder: Path) -> list[Path]:
    """The package and all that it needs, with lists, settings and a status of our own: apt sees an empty machine."""
    archives = folder / "cache" / "archives"
    for needed in (folder / "lists" / "partial", archives / "partial"):
        needed.mkdir(parents=True, exist_ok=True)
    source = f"deb [signed-by={_KEYRING}] {_archive()} {_RELEASE} main\n"
    (folder / "sources.list").write_text(source, encoding="ascii")
    settings = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "",
    }
    apt = ("apt-get", "-qq", "-y", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}")))
    run(*apt, "update")
    run(*apt, "install", "--download-only", "--no-install-recommends", package)
    return sorted(archives.glob("*.deb"))


def _archive() -> str:
    """Where this machine gets Debian's packages."""
    targets = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages")
    places = [
        place for origin, _, place in (line.partition(" ") for line in targets.splitlines()) if origin == "Debian"
    ]
    if not places:
        raise LabError("apt has no lists of Debian's packages: run `apt-get update`")
    return places[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.servers")
    parser.add_argument("flavor", choices=FLAVORS)
    try:
        sys.stdout.write(f"{server(parser.parse_args().flavor)}\n")
    except LabError as failure:
        sys.stderr.write(f"lab: {failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
