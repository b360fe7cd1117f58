"""A scratch folder that takes every process living in it along when it goes."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

END_S = 5.0


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of our own; whatever still runs in it at the end is ended by pid."""
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
    """Whether that process works in the folder; what may not be asked is not ours."""
    try:
        return Path(process.cwd()).is_relative_to(folder)
    except (psutil.Error, OSError):
        return False


def end_all(processes: list[psutil.Process]) -> None:
    """End them, at once where asking does not help."""
    for process in processes:
        signal_quietly(process, gentle=True)
    _, left = psutil.wait_procs(processes, timeout=END_S)
    for process in left:
        signal_quietly(process, gentle=False)
    psutil.wait_procs(left, timeout=END_S)


def signal_quietly(process: psutil.Process, *, gentle: bool) -> None:
    """Signal a process that may be gone already."""
    try:
        if gentle:
            process.terminate()
        else:
            process.kill()
    except psutil.NoSuchProcess:
        pass
