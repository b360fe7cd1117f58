"""Tries the directives of a topology's section `redis` on the server that will run them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rlctl.errors import Unreachable
from rlctl.render.text import Directive
from rlctl.render.trial_conf import trial_conf
from rlctl.state.accepted import Accepted
from rlctl.system.server_log import config_error, is_ready, last_error, without_stamps

# Starts a server with this configuration, ends it, and returns what it said until it was ready or had ended.
Start = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedDirective:
    """A directive that a server does not start with; None where no single one is to blame."""

    server: str
    directive: str | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialServer:
    """The program of a trial: `name` is for people, `identity` changes when the program does."""

    name: str
    identity: str


def check_directives(
    server: TrialServer, directives: Sequence[Directive], accepted: Accepted, start: Start
) -> tuple[RefusedDirective, ...]:
    """The directives that this server refuses; it is started only where it is not known to take them."""
    if accepted.holds(server.identity, directives):
        return ()
    found = refusals(server.name, directives, start)
    if not found:
        accepted.add(server.identity, directives)
    return found


def refusals(server: str, directives: Sequence[Directive], start: Start) -> tuple[RefusedDirective, ...]:
    """Every directive that this server does not start with; empty once it starts. One start more for each mistake."""
    found: list[RefusedDirective] = []
    left = list(directives)
    while not is_ready(said := start(trial_conf(left))):
        error = config_error(said)
        wrong = next((one for one in left if error is not None and one[0] == error.directive), None)
        if error is None or wrong is None:
            return (*found, *_without_a_line(server, left, said, start))
        found.append(RefusedDirective(server=server, directive=wrong[0], error=error.reason))
        left.remove(wrong)
    return tuple(found)


def _without_a_line(
    server: str, directives: Sequence[Directive], said: str, start: Start
) -> tuple[RefusedDirective, ...]:
    """A server that takes its configuration and ends later, as for lack of memory, names no directive."""
    if not is_ready(bare := start(trial_conf(()))):
        raise Unreachable(
            f"{server} does not start with an empty `redis:` section either: {_reason(bare)}",
            hint="start it by hand to see why; the directives of the topology could not be checked",
        )
    alone = tuple(_each_alone(server, directives, start))
    return alone or (RefusedDirective(server=server, directive=None, error=_reason(said)),)


def _each_alone(server: str, directives: Sequence[Directive], start: Start) -> Iterator[RefusedDirective]:
    for one in directives:
        if not is_ready(said := start(trial_conf([one]))):
            yield RefusedDirective(server=server, directive=one[0], error=_reason(said))


def _reason(said: str) -> str:
    return without_stamps(last_error(said)) or "it said nothing"
