"""Files that hold secrets or state: private modes, whole or not at all."""

import os
import stat
import tempfile
from errno import EACCES
from pathlib import Path

from rlctl.errors import InvalidFile, Refused, Unreachable

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def make_private_folder(path: Path) -> None:
    """Create the folder and its parents, readable by nobody else."""
    try:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    except OSError as failure:
        raise _cannot("create the folder", path, failure) from failure


def write_private(path: Path, text: str, *, durable: bool = False) -> None:
    """Write the whole file or nothing; `durable` also survives a power cut, which costs a disk flush."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as failure:
        raise _cannot("write", path, failure) from failure


def replace_text(path: Path, before: str, after: str) -> None:
    """Write a file of the user's anew, whole or not at all, mode and owner kept; Refused when it is not `before`."""
    check_unchanged(path, before)
    place = path.resolve()
    try:
        if not os.access(place, os.W_OK):
            # Its folder may be writable, but whoever took the right away from the file meant it.
            raise PermissionError(EACCES, os.strerror(EACCES))
        was = place.stat()
        handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(after.encode("utf-8"))
                os.fchown(stream.fileno(), was.st_uid, was.st_gid)
                os.fchmod(stream.fileno(), stat.S_IMODE(was.st_mode))
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).replace(place)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as failure:
        raise _cannot("write", path, failure) from failure


def check_unchanged(path: Path, before: str) -> None:
    """Refused when the file is no longer what was read of it."""
    try:
        found = path.read_bytes()
    except OSError as failure:
        raise _cannot("read", path, failure) from failure
    if found != before.encode("utf-8"):
        raise Refused(f"{path} has changed meanwhile", hint="look at it and run the command again")


def append_line(path: Path, line: str) -> None:
    """Add one line with a single write, so that lines of two writers never mix."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
        try:
            size = os.fstat(handle).st_size
            # A writer that died in the middle of its line must not take ours along.
            is_torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, f"{chr(10) if is_torn else ''}{line}\n".encode())
        finally:
            os.close(handle)
    except OSError as failure:
        raise _cannot("append to", path, failure) from failure


def read_text(path: Path) -> str | None:
    """The file's text, or None where there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as failure:
        raise InvalidFile(f"{path}:1: this is not UTF-8 text", hint="restore the file, or name another") from failure
    except OSError as failure:
        raise _cannot("read", path, failure) from failure


def read_damaged(path: Path) -> str:
    """The text of a file that others wrote: nothing where it is missing, and what is no text is replaced."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as failure:
        raise _cannot("read", path, failure) from failure


def _cannot(verb: str, path: Path, failure: OSError) -> Unreachable:
    reason = failure.strerror or str(failure)
    return Unreachable(
        f"cannot {verb} {path}: {reason}",
        hint="free space or fix the permissions, or point RLCTL_HOME at a folder that this user can write",
    )
