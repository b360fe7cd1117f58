"""`python -m tests.lab up | status | left FOLDER | down | hosts RELEASE...`: the lab by hand and for CI (README.md)."""

import argparse
import sys
from pathlib import Path

from tests.lab.engine import ensure_engine, is_ours, is_up, lab_lock, state_folder, stop_engine, things, things_of
from tests.lab.hosts import start_lab
from tests.lab.images import HOSTS, ensure_compose, ensure_images
from tests.lab.shell import LabError, timed


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _up() -> int:
    with lab_lock(), timed("the whole lab"):
        started = ensure_engine()
        ensure_images()
        ensure_compose()
    _say(f"lab: an engine of the lab's own runs from {state_folder()}" if started else "lab: an engine answers")
    return 0


def _status() -> int:
    if not is_up():
        _say("lab: no engine answers")
        return 1
    _say(f"lab: an engine answers; {'it runs' if is_ours() else 'none runs'} from {state_folder()}")
    for thing in things():
        _say(f"  {thing}")
    return 0


def _left(folder: Path) -> int:
    """Whether a run that worked in this folder left something; in an engine of the lab's own, everything is its."""
    left = things() if is_ours() else things_of(folder) if is_up() else []
    for thing in left:
        _say(thing)
    return 1 if left else 0


def _down() -> int:
    if not is_ours():
        _say(f"lab: no engine runs from {state_folder()}: nothing to stop")
        return 0
    for thing in stop_engine():
        _say(f"lab: removed with it: {thing}")
    return 0


def _hosts(releases: list[str]) -> int:
    ensure_images([HOSTS[release] for release in set(releases)])
    with start_lab(releases) as lab:
        for host in lab.hosts:
            _say(f"{host.name} {host.release}: ssh -F {lab.ssh_config} {host.address}")
        _say("Enter, or the end of the input, removes them")
        sys.stdin.readline()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("up", "status", "down"):
        verbs.add_parser(verb)
    verbs.add_parser("left").add_argument("folder", type=Path)
    verbs.add_parser("hosts").add_argument("releases", nargs="+", choices=sorted(HOSTS))
    chosen = parser.parse_args()
    try:
        match chosen.verb:
            case "up":
                return _up()
            case "status":
                return _status()
            case "left":
                return _left(chosen.folder)
            case "down":
                return _down()
            case _:
                return _hosts(chosen.releases)
    except LabError as failure:
        sys.stderr.write(f"lab: {failure}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
