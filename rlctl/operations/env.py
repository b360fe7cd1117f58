"""Connection settings of a fleet for other programs."""

from dataclasses import dataclass, field
from enum import StrEnum

from rlctl.errors import UsageFault
from rlctl.execute.service_users import check_service
from rlctl.execute.session import FleetSession
from rlctl.plan.sentinel import believed_primary
from rlctl.secrets import Secret, User
from rlctl.services import key_prefix, user_of
from rlctl.topology.model import Kind
from rlctl.topology.nodes import all_nodes, data_nodes, sentinel_nodes


class EnvUser(StrEnum):
    """The user to connect as."""

    LIMITER = "limiter"
    ADMIN = "admin"
    MONITOR = "monitor"

    @property
    def user(self) -> User:
        return {EnvUser.LIMITER: User.LIMITER, EnvUser.ADMIN: User.ADMIN, EnvUser.MONITOR: User.MONITOR}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The settings that a client library needs to connect.

    `remap` maps the address that a node announces to the address at which this machine reaches it.
    """

    kind: Kind
    host: str
    port: int
    username: str | None
    password: Secret | None = field(repr=False)
    tls: bool
    ca: str | None
    nodes: tuple[str, ...]
    sentinels: tuple[str, ...]
    master_name: str | None
    remap: dict[str, str]
    service: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the JSON document of `env -o json`, the only output with passwords."""
        password = self.password.reveal() if self.password else None
        return {
            "schema": "rlctl.env/1",
            "kind": self.kind,
            "host": self.host,
            "port": self.port,
            "username": self.username,
            "password": password,
            "tls": self.tls,
            "ca": self.ca,
            "nodes": list(self.nodes),
            "sentinels": list(self.sentinels),
            "master_name": self.master_name,
            "sentinel_username": self.username if self.sentinels else None,
            "sentinel_password": password if self.sentinels else None,
            **({"remap": self.remap} if self.remap else {}),
            **({"service": self.service, "key_prefix": key_prefix(self.service)} if self.service else {}),
        }


def connection(fleet: FleetSession, as_user: EnvUser, service: str | None = None) -> Connection:
    """Return the settings to connect to a node of a cluster, or to the primary of a Sentinel fleet.

    If `service` is given, the settings have the user of that service instead of the user limiter.
    """
    username, password = _login(fleet, as_user, service)
    topology = fleet.topology
    nodes = data_nodes(topology)
    first = nodes[0]
    if topology.kind is Kind.SENTINEL:
        observed = fleet.observe()
        primary = believed_primary(fleet.desired(observed), observed)
        first = next(spec for spec in nodes if spec.name == primary.name)
    is_sentinel = topology.kind is Kind.SENTINEL
    reached = {spec: "{}:{}".format(*fleet.target.route(spec)) for spec in all_nodes(topology)}
    host, port = fleet.target.route(first)
    return Connection(
        kind=topology.kind,
        host=host,
        port=port,
        username=username if topology.security.acl else None,
        password=password if topology.security.acl else None,
        tls=topology.security.tls,
        ca=str(fleet.folder.ca) if topology.security.tls else None,
        nodes=tuple(reached[spec] for spec in nodes),
        sentinels=tuple(reached[spec] for spec in sentinel_nodes(topology)),
        master_name=topology.name if is_sentinel else None,
        remap={spec.endpoint: reached for spec, reached in reached.items() if reached != spec.endpoint},
        service=service,
    )


def _login(fleet: FleetSession, as_user: EnvUser, service: str | None) -> tuple[str, Secret]:
    if service is None:
        return as_user.user.value, fleet.secrets.password(as_user.user)
    if as_user is not EnvUser.LIMITER:
        raise UsageFault(f"--service goes with --as limiter, not {as_user.value}", hint="leave out --service or --as")
    check_service(fleet, service)
    return user_of(service), fleet.secrets.services[service]
