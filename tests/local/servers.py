"""Fake server programs."""

import shutil
from pathlib import Path


def script(path: Path, text: str, *, mode: int = 0o755) -> Path:
    """Write an executable script."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(mode)
    return path


def wrapper(path: Path, before: str) -> Path:
    """A script that runs a few lines of shell, then the real server."""
    real = shutil.which("redis-server") or shutil.which("valkey-server")
    return script(path, f'{before}\nexec {real} "$@"')
