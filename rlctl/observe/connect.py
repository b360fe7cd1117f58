"""Connections to the nodes of a fleet, kept open for one operation."""

from collections.abc import Callable
from functools import partial

from rlctl.observe.model import Address
from rlctl.secrets import FleetSecrets, User
from rlctl.system.redis import Credentials, NodeLink
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeName, NodeSpec

ANSWER_S = 2.0


class Connector:
    """Opens and keeps one connection for each node. Only one thread at a time may use the connection of a node."""

    def __init__(
        self,
        topology: Topology,
        secrets: FleetSecrets,
        route: Callable[[NodeSpec], Address],
        why_unproven: Callable[[NodeSpec], str | None],
    ) -> None:
        self._topology = topology
        self._secrets = secrets
        self.route = route
        self._why_unproven = why_unproven
        self._links: dict[NodeName, NodeLink] = {}

    def link(self, spec: NodeSpec) -> NodeLink:
        """The connection to a node as user admin. The connection opens at the first call on it."""
        if spec.name not in self._links:
            self._links[spec.name] = self.separate_link(spec)
        return self._links[spec.name]

    def separate_link(self, spec: NodeSpec, user: User = User.ADMIN, *, timeout_s: float = ANSWER_S) -> NodeLink:
        """Create a connection for another thread or user. The caller must close it."""
        security, authority = self._topology.security, self._secrets.authority
        login = Credentials(
            username=user.value if security.acl else None,
            password=self._secrets.password(user) if security.acl else None,
            ca=authority.certificate if security.tls and authority is not None else None,
        )
        address, port = self.route(spec)
        return NodeLink(address, port, login, timeout_s=timeout_s, why_unproven=partial(self._why_unproven, spec))

    def hang_up(self, name: NodeName) -> None:
        """Close the connection to a node.

        After the node's machine or container has died, the connection may otherwise stay open.
        """
        link = self._links.pop(name, None)
        if link is not None:
            link.close()

    def abort(self) -> None:
        """Abort the calls that other threads are waiting for."""
        for link in tuple(self._links.values()):
            link.abort()

    def is_open(self, spec: NodeSpec) -> bool:
        """Whether there is an open connection to the node."""
        link = self._links.get(spec.name)
        return link is not None and link.is_open

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()
