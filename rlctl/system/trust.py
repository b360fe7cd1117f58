"""Checks that no other user can change the folders and files in which rlctl keeps secrets and locks."""

import os
import pwd
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import Refused

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0
_ELSEWHERE = "set RLCTL_HOME to a folder that does not exist yet, which rlctl creates"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathProblem:
    """Why a folder or file is not safe to use, and how to fix that."""

    evidence: str
    fix: str

    def refusal(self) -> Refused:
        return Refused(self.evidence, hint=self.fix)


def path_problem(path: Path) -> PathProblem | None:
    """Why a path is not safe to use; None if it is missing or only this user can change it.

    A folder may be a symbolic link that this user or root made, such as systemd's link to a StateDirectory.
    """
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            if not path.is_dir() or found.st_uid not in {_ROOT, os.geteuid()}:
                return link_problem(path, found)
            found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return state_problem(path, found)


def state_problem(path: Path, found: os.stat_result) -> PathProblem | None:
    """Like `path_problem`, for a file that is open already: `found` is its fstat."""
    if found.st_uid != os.geteuid():
        return _foreign(path, found)
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return PathProblem(evidence=f"{path} is neither a folder nor a regular file", fix="remove it")
    if found.st_mode & _BY_OTHERS:
        owner, mode = user_name(found.st_uid), stat.S_IMODE(found.st_mode)
        return PathProblem(
            evidence=f"other users may write to {path}: it belongs to {owner} and has mode {mode:04o}",
            fix=f"check what other users put there, then `chmod go-w {shlex.quote(str(path))}`; or {_ELSEWHERE}",
        )
    return None


def link_problem(path: Path, found: os.stat_result) -> PathProblem:
    """The problem of a symbolic link that rlctl does not follow."""
    return PathProblem(
        evidence=f"{path} is a symbolic link of user {user_name(found.st_uid)}, which rlctl does not follow",
        fix=f"remove the link, or {_ELSEWHERE}; RLCTL_SECRETS may name a link to a secrets file",
    )


def user_name(uid: int) -> str:
    """The user's name and id; the id alone if the system has no name for it."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _foreign(path: Path, found: os.stat_result) -> PathProblem:
    owner, mode = user_name(found.st_uid), stat.S_IMODE(found.st_mode)
    return PathProblem(
        evidence=f"{path} belongs to {owner}, mode {mode:04o}, and rlctl runs as {user_name(os.geteuid())}",
        fix=f"if {owner} is your own user, run rlctl as that user, without sudo; else {_ELSEWHERE}",
    )
