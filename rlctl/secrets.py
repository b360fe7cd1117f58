"""A fleet's secrets: its random id, its users' passwords, its certificate authority. Does no I/O."""

import hashlib
import json
import re
import secrets as randomness
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from rlctl.errors import InvalidFile
from rlctl.services import is_service

FORMAT = 1
HINT = "write a new one with `rlctl secrets export FILE` on the machine that deployed the fleet"
_FLEET_ID = re.compile(r"[0-9a-f]{40}")
_PASSWORD = re.compile(r"[A-Za-z0-9_-]{16,200}")


class User(StrEnum):
    """The Redis users that every fleet has."""

    ADMIN = "rlctl"
    LIMITER = "limiter"
    REPLICA = "replica"
    SENTINEL = "sentinel"
    MONITOR = "monitor"


class Secret:
    """A text that logs, tracebacks and reprs show as `***`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The plain text. Call this only to send it to a server or to write it for the operator."""
        return self._text

    def sha256(self) -> str:
        """Hexadecimal SHA-256, as ACL files store passwords."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and randomness.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    certificate: str
    key: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSecrets:
    """The secrets that a second operator needs to manage the fleet."""

    name: str
    fleet_id: str
    passwords: Mapping[User, Secret]
    authority: Authority | None
    # The passwords of services that have their own Redis user.
    services: Mapping[str, Secret] = field(default_factory=dict)

    def password(self, user: User) -> Secret:
        return self.passwords[user]


def generate(name: str, authority: Authority | None) -> FleetSecrets:
    return FleetSecrets(
        name=name,
        fleet_id=randomness.token_hex(20),
        passwords={user: _new_password() for user in User},
        authority=authority,
    )


def with_services(secrets: FleetSecrets, services: Iterable[str]) -> FleetSecrets:
    """Return the secrets with passwords for exactly these services: the existing password, else a new one."""
    known = secrets.services
    return replace(secrets, services={name: known.get(name) or _new_password() for name in sorted(services)})


def extends(given: FleetSecrets, own: FleetSecrets) -> bool:
    """Whether `given` equals `own`, apart from additional services."""
    return replace(given, services={}) == replace(own, services={}) and own.services.items() <= given.services.items()


def to_text(secrets: FleetSecrets) -> str:
    """Return the text of a secrets file, with passwords in plain text."""
    authority = secrets.authority
    services = {name: password.reveal() for name, password in secrets.services.items()}
    document = {
        "version": FORMAT,
        "name": secrets.name,
        "fleet_id": secrets.fleet_id,
        "users": {user.value: secrets.password(user).reveal() for user in User},
        **({"services": services} if services else {}),
        "tls": None
        if authority is None
        else {"ca_certificate": authority.certificate, "ca_key": authority.key.reveal()},
    }
    return json.dumps(document, indent=2) + "\n"


def from_text(text: str, path: Path) -> FleetSecrets:
    """Parse a secrets file. Raises InvalidFile, whose message contains no password or key."""
    try:
        document = json.loads(text)
        _check_format(document["version"])
        users = {user: _password(document["users"][user.value], user) for user in User}
        fleet_id = _fleet_id(document["fleet_id"])
        tls = document["tls"]
        return FleetSecrets(
            name=str(document["name"]),
            fleet_id=fleet_id,
            passwords=users,
            authority=None if tls is None else _authority(tls),
            services=_services(document.get("services", {})),
        )
    except KeyError as failure:
        raise InvalidFile(f"{path}:1: not a secrets file: {failure} is missing", hint=HINT) from failure
    except json.JSONDecodeError as failure:
        raise InvalidFile(f"{path}:{failure.lineno}: not a secrets file: {failure.msg}", hint=HINT) from failure
    except RecursionError as failure:
        raise InvalidFile(f"{path}:1: not a secrets file: nested too deeply", hint=HINT) from failure
    except (TypeError, ValueError) as failure:
        raise InvalidFile(f"{path}:1: not a secrets file: {failure}", hint=HINT) from failure


def _check_format(version: object) -> None:
    if version != FORMAT:
        raise ValueError(f"its version is {version!r}, and this rlctl reads only version {FORMAT}")


def _fleet_id(value: object) -> str:
    if not isinstance(value, str) or not _FLEET_ID.fullmatch(value):
        raise ValueError("fleet_id must be 40 lower-case hexadecimal digits")
    return value


def _authority(tls: Mapping[str, object]) -> Authority:
    return Authority(certificate=str(tls["ca_certificate"]), key=Secret(str(tls["ca_key"])))


def _services(passwords: object) -> dict[str, Secret]:
    if not isinstance(passwords, Mapping) or not all(map(is_service, passwords)):
        raise ValueError("services must map service names to passwords")
    return {name: _password(value, name) for name, value in passwords.items()}


def _new_password() -> Secret:
    return Secret(randomness.token_urlsafe(32))


def _password(value: object, user: str) -> Secret:
    if not isinstance(value, str) or not _PASSWORD.fullmatch(value):
        raise ValueError(f"the password of {user} must have 16 to 200 characters of A-Z, a-z, 0-9, _ and -")
    return Secret(value)
