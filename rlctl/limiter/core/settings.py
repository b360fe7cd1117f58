"""Addresses and logins of a fleet, as `rlctl env -o json` prints them. Pure."""

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
    """Host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class FleetKind(StrEnum):
    """How the limiter finds the node that owns a key: the only node, CLUSTER SLOTS, or Sentinel."""

    SINGLE = "single"
    CLUSTER = "cluster"
    SENTINEL = "sentinel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """User, password and TLS settings of a connection; `ca` is the path of the CA certificate."""

    username: str | None = None
    password: Secret | None = None
    tls: bool = False
    ca: str | None = None

    def hello(self) -> bytes:
        """Return the packed HELLO that begins a connection; the reply contains the server's role."""
        words = [b"HELLO", b"2"]
        if self.password is not None:
            words += [b"AUTH", (self.username or "default").encode(), self.password.reveal().encode()]
        return command(*words, b"SETNAME", CLIENT_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """Addresses, logins and service of the fleet that a limiter connects to."""

    kind: FleetKind
    nodes: tuple[Endpoint, ...]
    login: Login
    sentinels: tuple[Endpoint, ...] = ()
    master_name: str = ""
    sentinel_login: Login = field(default_factory=Login)
    # Maps an address in a server's reply to the address to connect to, such as a container's published port.
    remap: Mapping[Endpoint, Endpoint] = field(default_factory=dict)
    # The service whose keys the limiter uses; None for keys without a service.
    service: str | None = None

    def reached(self, named: Endpoint) -> Endpoint:
        """Return the address to connect to for a server whose address in replies is `named`."""
        return self.remap.get(named, named)


def read_settings(document: Mapping[str, object]) -> FleetSettings:
    """Parse the settings that `rlctl env -o json` prints; UsageFault if a key is missing or wrong."""
    kind = _kind(document)
    tls, ca = bool(document.get("tls")), _text(document, "ca") or None
    nodes = _endpoints(document, "nodes")
    host, port = _text(document, "host"), document.get("port")
    if host and port is not None and not (kind is FleetKind.CLUSTER and nodes):
        nodes = (endpoint(f"{host}:{port}"),)
    sentinels = _endpoints(document, "sentinels")
    master_name = _text(document, "master_name")
    if kind is FleetKind.SENTINEL and not (sentinels and master_name):
        raise UsageFault("limiter settings of kind sentinel need `sentinels` and `master_name`")
    if kind is not FleetKind.SENTINEL and not nodes:
        raise UsageFault("limiter settings need `host` and `port`, or `nodes`")
    return FleetSettings(
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
    """Parse `host:port` from settings or a server's reply; UsageFault if it is malformed."""
    host, colon, port = text.rpartition(":")
    # CLUSTER NODES appends the bus port after an @.
    port = port.partition("@")[0]
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageFault(f"{text!r} is not host:port")
    return Endpoint(host, int(port))


def _kind(document: Mapping[str, object]) -> FleetKind:
    kind = document.get("kind") or FleetKind.SINGLE
    try:
        return FleetKind(str(kind))
    except ValueError:
        raise UsageFault(f"limiter settings: kind {kind!r} is unknown; use one of {', '.join(FleetKind)}") from None


def _endpoints(document: Mapping[str, object], name: str) -> tuple[Endpoint, ...]:
    texts = document.get(name) or ()
    if not isinstance(texts, list | tuple):
        raise UsageFault(f"limiter settings: `{name}` must be a list of host:port")
    return tuple(endpoint(str(text)) for text in texts)


def _remap(document: Mapping[str, object]) -> dict[Endpoint, Endpoint]:
    pairs = document.get("remap") or {}
    if not isinstance(pairs, Mapping):
        raise UsageFault("limiter settings: `remap` must map host:port to host:port")
    return {endpoint(str(named)): endpoint(str(reached)) for named, reached in pairs.items()}


def _service(document: Mapping[str, object]) -> str | None:
    service = _text(document, "service") or None
    if service is not None and not is_service(service):
        raise UsageFault(f"limiter settings: service {service!r} is not valid; it must be {NAME_RULE}")
    return service


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageFault(f"limiter settings: `{name}` must be text")
    return value or ""


def _login(document: Mapping[str, object], prefix: str, *, tls: bool, ca: str | None) -> Login:
    password = document.get(f"{prefix}password")
    if isinstance(password, str):
        password = Secret(password)
    if password is not None and not isinstance(password, Secret):
        # The message omits the value, because the value may contain the password.
        raise UsageFault(f"limiter settings: `{prefix}password` must be text")
    return Login(username=_text(document, f"{prefix}username") or None, password=password, tls=tls, ca=ca)
