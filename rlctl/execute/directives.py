"""Check the section `redis` of a topology on the servers that will run it, before anything is changed."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from rlctl.execute.session import FleetSession
from rlctl.files.mistakes import ImpossibleSettings, Problem, shown
from rlctl.targets.trial import RefusedDirective
from rlctl.topology.model import Topology

_HINT = (
    "correct these directives or delete their lines; nothing was changed. "
    "`CONFIG GET *` on a running server lists the names that it accepts; "
    "Redis 8 reports an unknown name as a module's setting"
)


def check_directives(fleet: FleetSession, *, fetch: bool = False) -> bool:
    """Raise ImpossibleSettings if the server refuses directives; return False if the server is not installed yet.

    `fetch` downloads the image of a docker fleet first.
    """
    if not fleet.topology.redis:
        return True
    found = fleet.target.refused_directives(fetch=fetch)
    refuse(fleet.topology, found or ())
    return found is not None


def refuse(topology: Topology, refused: Iterable[RefusedDirective]) -> None:
    """Raise ImpossibleSettings if any server refused a directive; equal refusals become one problem."""
    alike = sorted(refused, key=lambda one: (one.directive or "", one.error, one.server))
    problems = [
        _problem(topology, directive, error, sorted({one.server for one in group}))
        for (directive, error), group in groupby(alike, key=lambda one: (one.directive, one.error))
    ]
    if problems:
        raise ImpossibleSettings(problems, hint=_HINT)


def _problem(topology: Topology, directive: str | None, error: str, servers: Sequence[str]) -> Problem:
    subject = f"{', '.join(servers)} {'does' if len(servers) == 1 else 'do'} not start with"
    if directive is None:
        return Problem(paths=("redis",), text=f"redis: {subject} these directives: {error}")
    line = f"{directive} {dict(topology.redis)[directive]}"
    return Problem(paths=(f"redis.{directive}",), text=f"redis.{directive}: {subject} {shown(line)}: {error}")
