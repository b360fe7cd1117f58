"""Files with secrets or state: private modes and atomic replacement."""

import os
import stat
import tempfile
from collections.abc import Callable
from errno import EACCES, ELOOP, EMLINK
from pathlib import Path

from rlctl.errors import InvalidFile, Refused, Unreachable
from rlctl.system.open_files import limit_reached
from rlctl.system.trust import link_problem, path_problem, state_problem

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
# rlctl refuses to read larger files. The files that rlctl itself writes are far smaller.
MOST_BYTES = 64 * 2**20


def make_private_folder(path: Path) -> None:
    """Create the folder and its missing parents with mode 0700.

    Raises Refused if the folder exists and another user can change it.
    """
    create_folder(path)
    check_folder(path)


def create_folder(path: Path) -> None:
    """Create the folder and its missing parents with mode 0700."""
    try:
        _create(path)
    except OSError as failure:
        raise cannot("create the folder", path, failure) from failure


def _create(path: Path) -> None:
    # `parents=True` would give the parents the umask's mode, not 0700.
    if not path.parent.exists():
        _create(path.parent)
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def check_folder(path: Path) -> None:
    """Raise Refused if another user can change the folder. Accepts a missing folder."""
    try:
        found = path_problem(path)
    except OSError as failure:
        raise cannot("read the mode of", path, failure) from failure
    if found is not None:
        raise found.refusal()


def open_own(path: str | Path, flags: int) -> int:
    """Open a file of RLCTL_HOME. Raises Refused if the path is a link or another user can change the file.

    A new file gets mode 0600. Use this function as the `opener` of `open`. Raises OSError as `os.open` does.
    """
    path = Path(path)
    check_folder(path.parent)
    try:
        # If the file is a FIFO, an open without O_NONBLOCK would wait until another process opens the FIFO too.
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, PRIVATE_FILE)
    except OSError as failure:
        if failure.errno in {ELOOP, EMLINK}:
            raise link_problem(path, path.lstat()).refusal() from failure
        raise
    found = state_problem(path, os.fstat(handle))
    if found is not None:
        os.close(handle)
        raise found.refusal()
    # Only the open had to be non-blocking. A program that gets the file as its output, such as Ansible, needs blocking
    # writes.
    os.set_blocking(handle, True)
    return handle


def write_all(handle: int, text: str) -> None:
    """Write the whole text, with one write unless the disk fills up. Raises OSError as `os.write` does."""
    data = text.encode()
    while data:
        data = data[os.write(handle, data) :]


def write_private(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace the file atomically, with mode 0600.

    With `durable` the text is on disk before it replaces the file, so that after a power cut the file has either the
    old or the new text.
    """
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
        raise cannot("write", path, failure) from failure


def replace_text(path: Path, before: str, after: str) -> None:
    """Replace the text of a user's file atomically, and keep its mode and owner.

    Raises Refused if the file no longer has the text `before`.
    """
    check_unchanged(path, before)
    place = path.resolve()
    try:
        if not os.access(place, os.W_OK):
            # The rename below needs write permission only for the folder, but a read-only file must not change.
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
        raise cannot("write", path, failure) from failure


def check_unchanged(path: Path, before: str) -> None:
    """Raise Refused if the file no longer has the text `before`."""
    try:
        found = path.read_bytes()
    except OSError as failure:
        raise cannot("read", path, failure) from failure
    if found != before.encode("utf-8"):
        raise Refused(f"{path} has changed meanwhile", hint="check the file and run the command again")


def append_line(path: Path, line: str) -> None:
    """Append a line with a single write, so that lines of two writers never mix."""
    try:
        handle = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(handle).st_size
            # A killed writer may have left half a line. The new line must not continue it.
            is_torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            write_all(handle, f"{chr(10) if is_torn else ''}{line}\n")
        finally:
            os.close(handle)
    except OSError as failure:
        raise cannot("append to", path, failure) from failure


def read_given(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read at most `most` + 1 bytes of a file or pipe that the user named.

    More than `most` bytes in the result mean that the file is too large. Raises InvalidFile for a device, and OSError
    if the file cannot be read.
    """
    with open(path, "rb", opener=_open_given) as stream:
        return stream.read(most + 1)


def _open_given(path: str, flags: int) -> int:
    # A device such as /dev/zero has no end, and reading some devices has side effects.
    mode = Path(path).stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise InvalidFile(f"{path}:1: this is a device, neither a file nor a pipe", hint="name a file")
    return os.open(path, flags)


def read_text(path: Path) -> str | None:
    """The text of a file that the user named; None if it does not exist."""
    return _read_text(path, _open_given)


def read_own(path: Path) -> str | None:
    """The text of a file of RLCTL_HOME; None if it does not exist. Raises Refused as `open_own` does."""
    return _read_text(path, open_own)


def _read_text(path: Path, opener: Callable[[str, int], int]) -> str | None:
    try:
        with open(path, encoding="utf-8", opener=opener) as stream:
            text = stream.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as failure:
        raise InvalidFile(f"{path}:1: this is not UTF-8 text", hint="restore the file, or name another") from failure
    except OSError as failure:
        raise cannot("read", path, failure) from failure
    if len(text) > MOST_BYTES:
        raise InvalidFile(f"{path}:1: larger than {MOST_BYTES >> 20} MiB", hint="is this the right file?")
    return text


def read_damaged(path: Path) -> str:
    """The text of a file that may be damaged; empty if the file is missing. Replaces bytes that are not UTF-8."""
    try:
        with open(path, "rb", opener=open_own) as stream:
            return stream.read().decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as failure:
        raise cannot("read", path, failure) from failure


def cannot(verb: str, path: Path, failure: OSError) -> Unreachable:
    """The error for an OSError at a file or folder, such as "cannot write FILE: No space left on device"."""
    at_limit = limit_reached(failure)
    if at_limit is not None:
        return at_limit
    reason = failure.strerror or str(failure)
    return Unreachable(
        f"cannot {verb} {path}: {reason}",
        hint="free some space, fix the permissions, or set RLCTL_HOME to a folder that this user can write",
    )
