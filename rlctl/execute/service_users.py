"""Check that services have users on the fleet, and that rlctl may generate the passwords that are missing."""

from rlctl.errors import AccessDenied, NotFound, Refused
from rlctl.execute.session import FleetSession
from rlctl.observe.model import Observed
from rlctl.services import user_of
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.nodes import NodeSpec, all_nodes


def check_passwords(fleet: FleetSession, observed: Observed) -> None:
    """Raise AccessDenied if a node has the user of a service whose password this machine lacks.

    Another operator has deployed that user; a new password would lock that operator's services out.
    """
    specs = {spec.name: spec for spec in all_nodes(fleet.topology)}
    for service in fleet.new_services:
        for node in observed.up:
            if _has_user(fleet, specs[node.name], user_of(service)):
                raise AccessDenied(
                    f"{node.name} has a user {user_of(service)}, but this machine does not have its password",
                    hint="import the secrets that it was deployed with: `rlctl secrets import FILE`; or, to give it a "
                    f"new password, deploy once without {service} in security.services",
                )


def check_deployed(fleet: FleetSession) -> None:
    """Raise Refused if a service has no password yet; only deploy generates one."""
    if fleet.new_services:
        raise Refused(
            f"services without a user yet: {', '.join(fleet.new_services)}", hint="`rlctl deploy` adds the users"
        )


def check_service(fleet: FleetSession, service: str) -> None:
    """Raise NotFound if the service has no user on this fleet."""
    known = fleet.topology.security.services
    if service not in known:
        listed = f"it has {', '.join(known)}" if known else "it is empty"
        raise NotFound(f"security.services of the topology has no {service}", hint=f"{listed}; add it and deploy")
    if service in fleet.new_services:
        raise NotFound(f"service {service} has no user yet", hint="`rlctl deploy` adds it")


def _has_user(fleet: FleetSession, spec: NodeSpec, user: str) -> bool:
    try:
        return fleet.connector.link(spec).call("ACL", "GETUSER", user) is not None
    except (LinkFailure, CommandFailed):
        return False
