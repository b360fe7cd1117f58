"""Files that hold secrets or state: private modes, whole or not at all."""

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
# Far more than any file of rlctl's; what is larger is not read to its end.
MOST_BYTES = 64 * 2**20


def make_private_folder(path: Path) -> None:
    """Create the folder and its missing parents, mode 0700; Refused where it exists and others can change it."""
    create_folder(path)
    check_folder(path)


def create_folder(path: Path) -> None:
    """Create the folder and its missing parents, mode 0700 whatever the umask is."""
    try:
        _create(path)
    except OSError as failure:
        raise cannot("create the folder", path, failure) from failure


def _create(path: Path) -> None:
    # Not `parents=True`: it gives parents the mode that the umask leaves.
    if not path.parent.exists():
        _create(path.parent)
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def check_folder(path: Path) -> None:
    """Refused where another user can change the folder; one that is missing is fine."""
    try:
        found = path_problem(path)
    except OSError as failure:
        raise cannot("look at", path, failure) from failure
    if found is not None:
        raise found.refusal()


def open_own(path: str | Path, flags: int) -> int:
    """Open a file of RLCTL_HOME, new ones with mode 0600; Refused where it is a link or another user can change it.

    Has the signature of an opener for `open`. OSError as from `os.open`.
    """
    path = Path(path)
    check_folder(path.parent)
    try:
        # A pipe in the place of a file would wait for its other end.
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, PRIVATE_FILE)
    except OSError as failure:
        if failure.errno in {ELOOP, EMLINK}:
            raise link_problem(path, path.lstat()).refusal() from failure
        raise
    found = state_problem(path, os.fstat(handle))
    if found is not None:
        os.close(handle)
        raise found.refusal()
    # Programs that get it as their output, as Ansible does, want it blocking.
    os.set_blocking(handle, True)
    return handle


def write_all(handle: int, text: str) -> None:
    """Write the whole text, in one piece unless the disk fills up; OSError as from `os.write`."""
    data = text.encode()
    while data:
        data = data[os.write(handle, data) :]


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
        raise cannot("write", path, failure) from failure


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
        raise cannot("write", path, failure) from failure


def check_unchanged(path: Path, before: str) -> None:
    """Refused when the file is no longer what was read of it."""
    try:
        found = path.read_bytes()
    except OSError as failure:
        raise cannot("read", path, failure) from failure
    if found != before.encode("utf-8"):
        raise Refused(f"{path} has changed meanwhile", hint="look at it and run the command again")


def append_line(path: Path, line: str) -> None:
    """Add one line with a single write, so that lines of two writers never mix."""
    try:
        handle = open_own(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(handle).st_size
            # A writer that died in the middle of its line must not take ours along.
            is_torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            write_all(handle, f"{chr(10) if is_torn else ''}{line}\n")
        finally:
            os.close(handle)
    except OSError as failure:
        raise cannot("append to", path, failure) from failure


def read_given(path: Path, most: int = MOST_BYTES) -> bytes:
    """A file or pipe that the user named, at most one byte more than `most`; OSError where it cannot be read."""
    with open(path, "rb", opener=_open_given) as stream:
        return stream.read(most + 1)


def _open_given(path: str, flags: int) -> int:
    """A device such as /dev/zero has no end, and reading another may do something."""
    mode = Path(path).stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise InvalidFile(f"{path}:1: this is a device, neither a file nor a pipe", hint="name a file")
    return os.open(path, flags)


def read_text(path: Path) -> str | None:
    """The text of a file that the user named, or None where there is no such file."""
    return _read_text(path, _open_given)


def read_own(path: Path) -> str | None:
    """The text of a file of RLCTL_HOME, or None where there is no such file; Refused as by `open_own`."""
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
    """Like `read_own`, for files that servers write: nothing where it is missing, and what is no text is replaced."""
    try:
        with open(path, "rb", opener=open_own) as stream:
            return stream.read().decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as failure:
        raise cannot("read", path, failure) from failure


def cannot(verb: str, path: Path, failure: OSError) -> Unreachable:
    """What to raise where the system refuses to `verb` a file or folder."""
    told = limit_reached(failure)
    if told is not None:
        return told
    reason = failure.strerror or str(failure)
    return Unreachable(
        f"cannot {verb} {path}: {reason}",
        hint="free space or fix the permissions, or point RLCTL_HOME at a folder that this user can write",
    )
