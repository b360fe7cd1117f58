"""Installs the clients once, in exact versions, beside the Python that runs the tests."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CLIENTS = Path(__file__).parent / "clients"
INSTALL_S = 900.0


class NotInstalled(Exception):
    """Why the clients cannot be had here."""


def installed() -> Path:
    """The folder with node_modules and the Python packages; filled by the first call that finds it missing."""
    wanted = [CLIENTS / "package.json", CLIENTS / "requirements.txt"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in wanted)).hexdigest()[:12]
    folder = Path(sys.prefix) / "interop" / digest
    if not folder.is_dir():
        folder.parent.mkdir(exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            _fill(unfinished)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _fill(folder: Path) -> None:
    shutil.copy(CLIENTS / "package.json", folder)
    # A lock file would name the registry of the machine that wrote it.
    _run(folder, "npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(folder, *pip, "--target", "python", "--requirement", str(CLIENTS / "requirements.txt"))


def _run(folder: Path, *argv: str) -> None:
    if shutil.which(argv[0]) is None:
        raise NotInstalled(f"no {argv[0]} on PATH")
    try:
        done = subprocess.run(
            argv, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired as failure:
        raise NotInstalled(f"{argv[0]} did not end within {INSTALL_S:g} s") from failure
    if done.returncode != 0:
        raise NotInstalled(f"{' '.join(argv[:4])} failed: {done.stderr.strip()[-500:]}")
