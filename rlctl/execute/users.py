"""Change the users of a running node without ending its connections.

This module does not use ACL LOAD, which ends every client's connection on Redis 7.0, even if no user has changed
(redis #11986).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from rlctl.execute.formation import Errors
from rlctl.render.acl import REVISION_USER, differing_users, user_rules
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.topology.nodes import NodeName


def load_users(
    files: Mapping[NodeName, str], link: Callable[[NodeName], NodeLink], write: Callable[[Sequence[NodeName]], Errors]
) -> Errors:
    """Set the users of each node, write its ACL file, then record the file's revision there; return errors by node.

    A node that failed keeps its old revision, so the next run sets its users again.
    """
    errors = _each(files, lambda node: set_users(link(node), files[node]))
    errors |= write([node for node in files if node not in errors])
    finished = [node for node in files if node not in errors]
    return errors | _each(finished, lambda node: set_revision(link(node), files[node]))


def _each(nodes: Iterable[NodeName], do: Callable[[NodeName], str | None]) -> Errors:
    problems = {node: do(node) for node in nodes}
    return {node: problem for node, problem in problems.items() if problem is not None}


def set_users(link: NodeLink, acl_file: str) -> str | None:
    """Set the users of an ACL file, delete all others, and read them back; return the error, or None.

    The user that records the revision of the ACL file is not changed.
    """
    rules = user_rules(acl_file)
    try:
        answers = link.pipeline([_setting(name, rules[name]) for name in rules if name != REVISION_USER])
        if refused := [answer for answer in answers if isinstance(answer, CommandFailed)]:
            return str(refused[0])
        if unwanted := [name for name in link.call("ACL", "USERS") if name not in rules]:
            link.call("ACL", "DELUSER", *unwanted)
        different = differing_users(acl_file, link.call("ACL", "LIST"))
    except (LinkFailure, CommandFailed) as failure:
        return str(failure)
    return f"the server does not list {', '.join(different)} as they were set" if different else None


def set_revision(link: NodeLink, acl_file: str) -> str | None:
    """Record on the node the revision of the ACL file that its users come from; return the error, or None."""
    try:
        link.call(*_setting(REVISION_USER, user_rules(acl_file)[REVISION_USER]))
    except (LinkFailure, CommandFailed) as failure:
        return str(failure)
    return None


def _setting(name: str, rules: tuple[str, ...]) -> tuple[str, ...]:
    return "ACL", "SETUSER", name, *rules
