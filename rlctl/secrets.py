"""A fleet's secrets: its random id, its users' passwords, its certificate authority. Pure but for chance."""

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
HINT = "`rlctl secrets export FILE` writes a valid one where the fleet was deployed"
_FLEET_ID = re.compile(r"[0-9a-f]{40}")
_PASSWORD = re.compile(r"[A-Za-z0-9_-]{16,200}")


class User(StrEnum):
    """The users every fleet has."""

    ADMIN = "rlctl"
    LIMITER = "limiter"
    REPLICA = "replica"
    SENTINEL = "sentinel"
    MONITOR = "monitor"


class Secret:
    """A text that does not show itself in logs, tracebacks and reprs."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself; call it only where it leaves for a server or for its owner."""
        return self._text

    def sha256(self) -> str:
        """The form in which ACL files keep it."""
        return hashlib.sha256(self._text.encode()).hexdigest()

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and randomness.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """The certificate authority of a fleet with TLS."""

    certificate: str
    key: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSecrets:
    """Everything another operator needs to carry on."""

    name: str
    fleet_id: str
    passwords: Mapping[User, Secret]
    authority: Authority | None
    # The passwords of services that have a user of their own.
    services: Mapping[str, Secret] = field(default_factory=dict)

    def password(self, user: User) -> Secret:
        """The password of one user."""
        return self.passwords[user]


def generate(name: str, authority: Authority | None) -> FleetSecrets:
    """New secrets for a new fleet."""
    return FleetSecrets(
        name=name,
        fleet_id=randomness.token_hex(20),
        passwords={user: _new_password() for user in User},
        authority=authority,
    )


def with_services(secrets: FleetSecrets, services: Iterable[str]) -> FleetSecrets:
    """The same secrets for exactly these services: known passwords stay, missing ones are generated."""
    known = secrets.services
    return replace(secrets, services={name: known.get(name) or _new_password() for name in sorted(services)})


def extends(given: FleetSecrets, own: FleetSecrets) -> bool:
    """Whether these are the same secrets, with none or more services."""
    return replace(given, services={}) == replace(own, services={}) and own.services.items() <= given.services.items()


def to_text(secrets: FleetSecrets) -> str:
    """The file form; the only place that turns all secrets into text."""
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
    """Read the file form; InvalidFile says what is wrong without quoting the file."""
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
        raise ValueError(f"version {version} is not {FORMAT}")


def _fleet_id(value: object) -> str:
    if not isinstance(value, str) or not _FLEET_ID.fullmatch(value):
        raise ValueError("fleet_id is not 40 hexadecimal digits")
    return value


def _authority(tls: Mapping[str, object]) -> Authority:
    return Authority(certificate=str(tls["ca_certificate"]), key=Secret(str(tls["ca_key"])))


def _services(passwords: object) -> dict[str, Secret]:
    if not isinstance(passwords, Mapping) or not all(map(is_service, passwords)):
        raise ValueError("services does not map names of services to passwords")
    return {name: _password(value, name) for name, value in passwords.items()}


def _new_password() -> Secret:
    return Secret(randomness.token_urlsafe(32))


def _password(value: object, user: str) -> Secret:
    if not isinstance(value, str) or not _PASSWORD.fullmatch(value):
        raise ValueError(f"the password of {user} must be 16 to 200 of A-Z a-z 0-9 _ -")
    return Secret(value)
