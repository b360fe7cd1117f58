"""Which folders and files rlctl may keep secrets and locks in: those that no other user can change."""

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
    """Why a folder or file is not used, and what to do about it."""

    evidence: str
    fix: str

    def refusal(self) -> Refused:
        """The same as an error."""
        return Refused(self.evidence, hint=self.fix)


def path_problem(path: Path) -> PathProblem | None:
    """Why not to use this path; None where it is missing, or only this user can change it.

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
    """The same for what was opened at this path."""
    if found.st_uid != os.geteuid():
        return _foreign(path, found)
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return PathProblem(evidence=f"{path} is neither a folder nor a regular file", fix="remove it")
    if found.st_mode & _BY_OTHERS:
        mode = stat.S_IMODE(found.st_mode)
        return PathProblem(
            evidence=f"others may write to {path}: it belongs to {user_name(found.st_uid)} and has mode {mode:04o}",
            fix=f"check what others put there, then `chmod go-w {shlex.quote(str(path))}`; or {_ELSEWHERE}",
        )
    return None


def link_problem(path: Path, found: os.stat_result) -> PathProblem:
    """Why not to follow a symbolic link."""
    return PathProblem(
        evidence=f"{path} is a symbolic link of user {user_name(found.st_uid)}, which rlctl does not follow",
        fix=f"remove the link, or {_ELSEWHERE}; RLCTL_SECRETS may name a link to a secrets file",
    )


def user_name(uid: int) -> str:
    """The user's name and id, the id alone where it has no name."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _foreign(path: Path, found: os.stat_result) -> PathProblem:
    owner, mode = user_name(found.st_uid), stat.S_IMODE(found.st_mode)
    return PathProblem(
        evidence=f"{path} belongs to {owner}, mode {mode:04o}, and rlctl runs as {user_name(os.geteuid())}",
        fix=f"where that is your own user, run rlctl as it, without sudo; else {_ELSEWHERE}",
    )
