"""rlctl limit: one decision from the command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from rlctl.cli.app import App, Duration, with_app
from rlctl.errors import NotFound, UsageFault
from rlctl.execute.connection import As, connection
from rlctl.execute.fleet import open_fleet
from rlctl.limiter import ALGORITHMS, Algorithm, Cause, Concurrent, Decision, Limiter, Source, new_request_id
from rlctl.rules.explain import typed_dimensions
from rlctl.runbooks.shelf import by_cause

# A person waits longer than a service does; the budget of a service would also count the first connection.
BUDGET_S = 1.0
DIRECT = "direct"

# Which options make which parameters of an algorithm; the window of one is the lease or the period of another.
_PARAMETERS: dict[str, dict[str, str]] = {
    "token_bucket": {"capacity": "limit", "rate": "rate", "period_ms": "period"},
    "gcra": {"burst": "limit", "rate": "rate", "period_ms": "period"},
    "fixed_window": {"limit": "limit", "window_ms": "window"},
    "sliding_counter": {"limit": "limit", "window_ms": "window"},
    "rolling_window": {"limit": "limit", "window_ms": "window", "min_interval_ms": "min_interval"},
    "rolling_ring": {"limit": "limit", "window_ms": "window", "min_interval_ms": "min_interval"},
    "concurrent": {"limit": "limit", "lease_ms": "lease"},
}


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[RULE] IDENTITY")
@click.option("--algorithm", type=click.Choice(list(_PARAMETERS)), help="Decide by this algorithm, without a rule.")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Also capacity and burst.")
@click.option("--window", type=Duration(), default="60s", show_default=True, help="For windows and counters.")
@click.option("--min-interval", type=Duration(), help="For rolling windows: the least time between two calls.")
@click.option("--rate", type=click.IntRange(min=1), default=100, show_default=True, help="For buckets: so many ...")
@click.option("--period", type=Duration(), default="60s", show_default=True, help="... every so often.")
@click.option(
    "--lease", type=Duration(), default="30s", show_default=True, help="For concurrent: how long a lease lasts."
)
@click.option("--request-id", help="For concurrent: the lease's name [a new one].")
@click.option("--cost", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--peek", is_flag=True, help="Only look, count nothing.")
@click.option("--tier", help="With a rule: the tier to ask for.")
@click.option("--on-failure", type=click.Choice(["open", "closed", "local"]), help="[the rule's own, else closed]")
@with_app
def limit(
    app: App,
    words: tuple[str, ...],
    algorithm: str | None,
    request_id: str | None,
    cost: int,
    peek: bool,
    tier: str | None,
    on_failure: str | None,
    **options: float | None,
) -> None:
    """Make one decision and show it with the response headers it would give; a denial is exit 0 too.

    RULE is one of the fleet's rules (`rlctl rules status`); IDENTITY is the one value that it counts by, or names all
    it needs: user=ada,endpoint=/x.

    \b
    rlctl limit api-per-key ada --tier free
    rlctl limit --algorithm sliding_counter --limit 1000 --window 60s ada
    rlctl limit --algorithm gcra --limit 10 --rate 5 --period 1s --peek ada
    """
    name, identity = _words(words, algorithm)
    with open_fleet(app.topology(), app.home) as fleet:
        if fleet.is_new:
            raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="`rlctl deploy` makes it")
        settings, release = connection(fleet, As.LIMITER).to_json(), fleet.release
    budget_ms = app.timeout(BUDGET_S) * 1000
    asked = _Asked(cost=cost, peek=peek, request_id=request_id or new_request_id(), tier=tier, policy=on_failure)
    with Limiter.connect(
        settings,
        policy=on_failure or "closed",
        budget_ms=budget_ms,
        connect_timeout_ms=budget_ms,
        release=release,
        rules=name is not None,
    ) as limiter:
        if name is not None:
            decision = _by_rule(limiter, name, identity, asked)
        else:
            decision = _ask(limiter, _algorithm(algorithm or "", options), identity, DIRECT, asked)
    _show(app, name or DIRECT, identity, decision)
    if decision.cause is not None:
        page = by_cause().get(decision.cause)
        way = f"; `rlctl runbook show {page}`" if page else ""
        app.output.note(f"Redis did not decide: {decision.cause}{way}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is asked, whatever decides."""

    cost: int
    peek: bool
    request_id: str
    tier: str | None
    policy: str | None


def _words(words: tuple[str, ...], algorithm: str | None) -> tuple[str | None, str]:
    if len(words) > 2 or (algorithm and len(words) > 1):
        raise UsageFault("one identity at a time", hint="see `rlctl limit --help`")
    if algorithm is None and len(words) == 1:
        raise UsageFault("a rule is missing", hint="name a rule before the identity, or give --algorithm")
    return (None, words[0]) if algorithm is not None else (words[0], words[1])


def _by_rule(limiter: Limiter, name: str, identity: str, asked: _Asked) -> Decision:
    if not limiter.has_rules:
        if Cause.NO_RULE in limiter.stats.errors:
            raise NotFound(f"no rule {name}: no rules are in force", hint="`rlctl rules apply FILE`, or --algorithm")
        # Nobody answers: the failure policy decides, as it would for a service.
        return limiter.decide(name, identity, policy=asked.policy)
    rule = limiter.rule(name)
    if rule is None:
        raise NotFound(f"no rule {name} is in force", hint="`rlctl rules status` shows those that are")
    dimensions = typed_dimensions(rule, identity, None)
    decision = _ask(limiter, name, dimensions, name, asked, has_leases=rule.definition.algorithm == Concurrent.name)
    if decision.source is Source.RULES:
        raise NotFound(f"rule {name} does not concern {identity}", hint=f"`rlctl rules explain {name} ...` says why")
    return decision


def _ask(
    limiter: Limiter,
    what: Algorithm | str,
    who: str | Mapping[str, str],
    rule_id: str,
    asked: _Asked,
    *,
    has_leases: bool = False,
) -> Decision:
    how: Any = {"rule_id": rule_id, "tier": asked.tier, "policy": asked.policy}
    if not isinstance(what, Concurrent | str) or (isinstance(what, str) and not has_leases):
        return limiter.decide(what, who, cost=asked.cost, peek=asked.peek, **how)
    if asked.peek:
        return limiter.peek(what, who, **how)
    return limiter.acquire(what, who, asked.request_id, **how)


def _algorithm(name: str, options: dict[str, float | None]) -> Algorithm:
    parameters = {}
    for parameter, option in _PARAMETERS[name].items():
        value = options[option]
        if value is not None:
            parameters[parameter] = round(value * 1000) if parameter.endswith("_ms") else int(value)
    return ALGORITHMS[name](**parameters)


def _show(app: App, rule: str, identity: str, decision: Decision) -> None:
    headers = decision.headers()
    if app.output.as_json:
        app.output.result(
            {
                "schema": "rlctl.limit/1",
                "rule": rule,
                "identity": identity,
                "allowed": decision.allowed,
                "limit": decision.limit,
                "remaining": decision.remaining,
                "retry_after_ms": decision.retry_after_ms,
                "reset_after_ms": decision.reset_after_ms,
                "reason": decision.reason,
                "source": decision.source,
                "headers": headers,
            }
        )
        return
    verdict = "allowed" if decision.allowed else "denied"
    app.output.text(f"{verdict} ({decision.reason}, decided by {decision.source})")
    for name, value in headers.items():
        app.output.text(f"{name}: {value}")
