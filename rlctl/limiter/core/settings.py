"""Where the fleet is and how to log in: what `rlctl env -o json` prints, as a frozen value. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rlctl.errors import UsageFault
from rlctl.limits.resp import command
from rlctl.secrets import Secret
from rlctl.services import NAME_RULE, is_service

CLIENT_NAME = b"rlctl-limiter"


class Endpoint(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class FleetKind(StrEnum):
    """How the node in charge of a key is found."""

    SINGLE = "single"
    CLUSTER = "cluster"
    SENTINEL = "sentinel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to open a connection: user, password, and the certificate that the server is verified by."""

    username: str | None = None
    password: Secret | None = None
    tls: bool = False
    ca: str | None = None

    def hello(self) -> bytes:
        """The first command on a connection; its reply names the server's role."""
        words = [b"HELLO", b"2"]
        if self.password is not None:
            words += [b"AUTH", (self.username or "default").encode(), self.password.reveal().encode()]
        return command(*words, b"SETNAME", CLIENT_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a limiter must know of its fleet."""

    kind: FleetKind
    nodes: tuple[Endpoint, ...]
    login: Login
    sentinels: tuple[Endpoint, ...] = ()
    master_name: str = ""
    sentinel_login: Login = field(default_factory=Login)
    # What servers call each other is not always where they are reached: ports of containers may be published elsewhere.
    remap: Mapping[Endpoint, Endpoint] = field(default_factory=dict)
    # Whose keys it decides on; None: keys without a service.
    service: str | None = None

    def reached(self, named: Endpoint) -> Endpoint:
        """Where a server is reached that goes by this name."""
        return self.remap.get(named, named)


def read_settings(document: Mapping[str, object]) -> Settings:
    """The settings that `rlctl env -o json` printed; UsageFault names what is missing or wrong."""
    kind = _kind(document)
    tls, ca = bool(document.get("tls")), _text(document, "ca") or None
    nodes = _endpoints(document, "nodes")
    host, port = _text(document, "host"), document.get("port")
    if host and port is not None and not (kind is FleetKind.CLUSTER and nodes):
        nodes = (endpoint(f"{host}:{port}"),)
    sentinels = _endpoints(document, "sentinels")
    master_name = _text(document, "master_name")
    if kind is FleetKind.SENTINEL and not (sentinels and master_name):
        raise UsageFault("limiter settings of kind sentinel want `sentinels` and `master_name`")
    if kind is not FleetKind.SENTINEL and not nodes:
        raise UsageFault("limiter settings want `host` and `port`, or `nodes`")
    return Settings(
        kind=kind,
        nodes=nodes,
        login=_login(document, "", tls=tls, ca=ca),
        sentinels=sentinels,
        master_name=master_name,
        sentinel_login=_login(document, "sentinel_", tls=tls, ca=ca),
        remap=_remap(document),
        service=_service(document),
    )


def endpoint(text: str) -> Endpoint:
    """`host:port` as it stands in settings and replies."""
    host, colon, port = text.rpartition(":")
    # A cluster node's bus port follows an @.
    port = port.partition("@")[0]
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageFault(f"{text!r} is not host:port")
    return Endpoint(host, int(port))


def _kind(document: Mapping[str, object]) -> FleetKind:
    kind = document.get("kind") or FleetKind.SINGLE
    try:
        return FleetKind(str(kind))
    except ValueError:
        raise UsageFault(f"limiter settings: kind {kind!r} is none of {', '.join(FleetKind)}") from None


def _endpoints(document: Mapping[str, object], name: str) -> tuple[Endpoint, ...]:
    texts = document.get(name) or ()
    if not isinstance(texts, list | tuple):
        raise UsageFault(f"limiter settings: `{name}` is a list of host:port")
    return tuple(endpoint(str(text)) for text in texts)


def _remap(document: Mapping[str, object]) -> dict[Endpoint, Endpoint]:
    pairs = document.get("remap") or {}
    if not isinstance(pairs, Mapping):
        raise UsageFault("limiter settings: `remap` maps host:port to host:port")
    return {endpoint(str(named)): endpoint(str(reached)) for named, reached in pairs.items()}


def _service(document: Mapping[str, object]) -> str | None:
    service = _text(document, "service") or None
    if service is not None and not is_service(service):
        raise UsageFault(f"limiter settings: service {service!r} is not possible; it is {NAME_RULE}")
    return service


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageFault(f"limiter settings: `{name}` is a text")
    return value or ""


def _login(document: Mapping[str, object], prefix: str, *, tls: bool, ca: str | None) -> Login:
    password = document.get(f"{prefix}password")
    if isinstance(password, str):
        password = Secret(password)
    if password is not None and not isinstance(password, Secret):
        # What stands there instead may be the secret all the same: it is not quoted.
        raise UsageFault(f"limiter settings: `{prefix}password` is a text")
    return Login(username=_text(document, f"{prefix}username") or None, password=password, tls=tls, ca=ca)
