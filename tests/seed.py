"""The seed of random choices in tests: RLCTL_SEED, else the commit, so that each commit makes other choices."""

import os
import random
import subprocess
from pathlib import Path

WHERE_NO_COMMIT_IS = "1"


def _of_commit() -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return WHERE_NO_COMMIT_IS
    return found.stdout.strip()


SEED = os.environ.get("RLCTL_SEED") or _of_commit()


def chance(what: str) -> random.Random:
    """Random numbers for one purpose, which depend only on the seed."""
    return random.Random(f"{SEED}/{what}")  # noqa: S311 - repeatable, not secret
