"""Tries the directives of a topology's section `redis` on the server program that will use them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rlctl.errors import Unreachable
from rlctl.render.text import Directive
from rlctl.render.trial_conf import trial_conf
from rlctl.state.accepted import AcceptedDirectives
from rlctl.system.server_log import config_error, is_ready, last_error, without_stamps

# Starts a server with this configuration, and ends it once it is ready. Returns the log up to that moment, or up to the
# moment at which the server ended by itself.
Start = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedDirective:
    """A directive with which a server does not start; `directive` is None if no single directive causes the error."""

    server: str
    directive: str | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialServer:
    """The program of a trial: `name` for messages, and an `identity` that changes with the program."""

    name: str
    identity: str


def check_directives(
    server: TrialServer, directives: Sequence[Directive], accepted: AcceptedDirectives, start: Start
) -> tuple[RefusedDirective, ...]:
    """The directives that this server refuses.

    If the server refuses none, the call records that in `accepted`, and a later call need not start the server.
    """
    if accepted.holds(server.identity, directives):
        return ()
    found = refusals(server.name, directives, start)
    if not found:
        accepted.add(server.identity, directives)
    return found


def refusals(server: str, directives: Sequence[Directive], start: Start) -> tuple[RefusedDirective, ...]:
    """Every directive that this server refuses. Each refused directive costs one more start."""
    found: list[RefusedDirective] = []
    left = list(directives)
    while not is_ready(log := start(trial_conf(left))):
        error = config_error(log)
        wrong = next((one for one in left if error is not None and one[0] == error.directive), None)
        if error is None or wrong is None:
            return (*found, *_without_line(server, left, log, start))
        found.append(RefusedDirective(server=server, directive=wrong[0], error=error.reason))
        left.remove(wrong)
    return tuple(found)


def _without_line(server: str, directives: Sequence[Directive], log: str, start: Start) -> tuple[RefusedDirective, ...]:
    """Find the refused directives if the server's error names no directive, such as an error about a lack of memory."""
    if not is_ready(bare := start(trial_conf(()))):
        raise Unreachable(
            f"{server} does not start with an empty `redis:` section either: {_reason(bare)}",
            hint="start the server by hand to see why; the topology's directives could not be checked",
        )
    alone = tuple(_each_alone(server, directives, start))
    return alone or (RefusedDirective(server=server, directive=None, error=_reason(log)),)


def _each_alone(server: str, directives: Sequence[Directive], start: Start) -> Iterator[RefusedDirective]:
    for one in directives:
        if not is_ready(log := start(trial_conf([one]))):
            yield RefusedDirective(server=server, directive=one[0], error=_reason(log))


def _reason(log: str) -> str:
    return without_stamps(last_error(log)) or "its log is empty"
