"""Where a fleet's secrets are kept: RLCTL_SECRETS, else the fleet's own file."""

import os
from pathlib import Path

from rlctl.errors import InvalidFile, NotFound
from rlctl.secrets import FleetSecrets, from_text, to_text
from rlctl.system.files import read_own, read_text, write_private


def secrets_path(own: Path) -> Path:
    """RLCTL_SECRETS where it is set, else the fleet's own file."""
    named = os.environ.get("RLCTL_SECRETS")
    return Path(named).expanduser() if named else own


def is_given() -> bool:
    """Whether RLCTL_SECRETS stands for the fleet's own file, so that what is kept there would not be read."""
    return bool(os.environ.get("RLCTL_SECRETS"))


def read(own: Path, name: str) -> FleetSecrets | None:
    """The secrets of fleet `name`, or None where none were generated or imported yet."""
    path = secrets_path(own)
    # A file that RLCTL_SECRETS names may be a link, as Kubernetes mounts secrets.
    text = read_own(path) if path == own else read_text(path)
    if text is None:
        if path == own:
            return None
        raise NotFound(f"RLCTL_SECRETS names {path}, which does not exist", hint="unset it, or name a file")
    secrets = from_text(text, path)
    if secrets.name != name:
        raise InvalidFile(
            f"{path}:1: these are the secrets of fleet {secrets.name!r}, not of {name!r}",
            hint="name the fleet's own file in RLCTL_SECRETS, or the topology that belongs to this one with -f",
        )
    return secrets


def write(path: Path, secrets: FleetSecrets) -> None:
    """Keep the secrets, 0600."""
    write_private(path, to_text(secrets), durable=True)
