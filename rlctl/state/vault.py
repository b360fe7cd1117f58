"""Read and write a fleet's secrets: in the file that RLCTL_SECRETS names, else in the fleet's own file."""

import os
from pathlib import Path

from rlctl.errors import InvalidFile, NotFound
from rlctl.secrets import FleetSecrets, from_text, to_text
from rlctl.system.files import read_own, read_text, write_private


def secrets_path(own: Path) -> Path:
    """The path in RLCTL_SECRETS if that variable is set, else `own`, the path of the fleet's own file."""
    named = os.environ.get("RLCTL_SECRETS")
    return Path(named).expanduser() if named else own


def is_from_environment() -> bool:
    """Whether RLCTL_SECRETS is set. rlctl then ignores the fleet's own file."""
    return bool(os.environ.get("RLCTL_SECRETS"))


def read(own: Path, name: str) -> FleetSecrets | None:
    """The secrets of fleet `name`; None if rlctl has not generated or imported them yet."""
    path = secrets_path(own)
    # `read_own` refuses symbolic links. RLCTL_SECRETS may name one, because Kubernetes mounts secrets as links.
    text = read_own(path) if path == own else read_text(path)
    if text is None:
        if path == own:
            return None
        raise NotFound(
            f"RLCTL_SECRETS names {path}, which does not exist",
            hint="unset RLCTL_SECRETS, or set it to an existing file",
        )
    secrets = from_text(text, path)
    if secrets.name != name:
        raise InvalidFile(
            f"{path}:1: these are the secrets of fleet {secrets.name!r}, not of {name!r}",
            hint="set RLCTL_SECRETS to the file of this fleet, or name the topology of the other fleet with -f",
        )
    return secrets


def write(path: Path, secrets: FleetSecrets) -> None:
    """Write the secrets with mode 0600."""
    write_private(path, to_text(secrets), durable=True)
