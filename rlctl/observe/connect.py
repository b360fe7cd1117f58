"""Connections to a fleet's nodes as its admin, kept open for one operation."""

from collections.abc import Callable
from functools import partial

from rlctl.observe.model import Address
from rlctl.secrets import FleetSecrets, User
from rlctl.system.redis import Credentials, NodeLink
from rlctl.topology.model import Topology
from rlctl.topology.nodes import NodeName, NodeSpec

ANSWER_S = 2.0


class Connector:
    """One connection a node; each node is only ever talked to by one thread at a time."""

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
        """The node's connection; it opens at its first call."""
        if spec.name not in self._links:
            self._links[spec.name] = self.separate_link(spec)
        return self._links[spec.name]

    def separate_link(self, spec: NodeSpec, user: User = User.ADMIN, *, timeout_s: float = ANSWER_S) -> NodeLink:
        """A connection of one's own, for another thread or user; whoever asks closes it."""
        security, authority = self._topology.security, self._secrets.authority
        login = Credentials(
            username=user.value if security.acl else None,
            password=self._secrets.password(user) if security.acl else None,
            ca=authority.certificate if security.tls and authority is not None else None,
        )
        address, port = self.route(spec)
        return NodeLink(address, port, login, timeout_s=timeout_s, why_unproven=partial(self._why_unproven, spec))

    def hang_up(self, name: NodeName) -> None:
        """Forget a node's connection: of a machine or container that died at once, no end was ever heard."""
        link = self._links.pop(name, None)
        if link is not None:
            link.close()

    def abort(self) -> None:
        """End the calls that other threads make at this moment."""
        for link in tuple(self._links.values()):
            link.abort()

    def is_open(self, spec: NodeSpec) -> bool:
        """Whether the node has been talked to and did not hang up since."""
        link = self._links.get(spec.name)
        return link is not None and link.is_open

    def close(self) -> None:
        """Hang up everywhere."""
        for link in self._links.values():
            link.close()
        self._links.clear()
