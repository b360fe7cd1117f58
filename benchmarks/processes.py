"""A scratch folder; its end also ends all processes that work in it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

END_S = 5.0


@contextmanager
def scratch() -> Iterator[Path]:
    """A new folder; at the end, processes that still work in it are ended by pid."""
    with tempfile.TemporaryDirectory(prefix="rlctl-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        try:
            yield folder
        finally:
            end_all(living_in(folder))


def living_in(folder: Path) -> list[psutil.Process]:
    """The processes whose working directory is inside the folder."""
    return [process for process in psutil.process_iter() if is_inside(process, folder)]


def is_inside(process: psutil.Process, folder: Path) -> bool:
    """Whether a process works in the folder; False if that cannot be read."""
    try:
        return Path(process.cwd()).is_relative_to(folder)
    except (psutil.Error, OSError):
        return False


def end_all(processes: list[psutil.Process]) -> None:
    """End processes with SIGTERM, then with SIGKILL."""
    for process in processes:
        signal_quietly(process, gentle=True)
    _, left = psutil.wait_procs(processes, timeout=END_S)
    for process in left:
        signal_quietly(process, gentle=False)
    psutil.wait_procs(left, timeout=END_S)


def signal_quietly(process: psutil.Process, *, gentle: bool) -> None:
    """Signal a process that may have ended."""
    try:
        if gentle:
            process.terminate()
        else:
            process.kill()
    except psutil.NoSuchProcess:
        pass
