"""rlctl limit: one decision from the command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.opened import opened
from rlctl.cli.options import Duration
from rlctl.errors import NotFound, UsageFault
from rlctl.limiter import ALGORITHMS, Algorithm, Cause, Concurrent, Decision, Limiter, Source, new_request_id
from rlctl.operations.env import As, connection
from rlctl.rules.explain import typed_dimensions, unknown_tier
from rlctl.rules.in_force import read_rules_in_force
from rlctl.runbooks.answers import page_for_cause

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
@click.option(
    "--tier", help="With a rule: the tier to ask for; one that it does not name gets the base limit, with a warning."
)
@click.option("--service", metavar="S", help="Count on the keys of this service, as its own user.")
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
    service: str | None,
    on_failure: str | None,
    **options: float | None,
) -> None:
    """Make one decision and show it with the response headers it would give; a denial is exit 0 too.

    RULE is one of the fleet's rules (`rlctl rules status`); IDENTITY is the one value that it counts by, or names all
    it needs: user=ada,endpoint=/x.

    \b
    rlctl limit api-per-key ada --tier free
    rlctl limit api-per-key ada --service checkout
    rlctl limit --algorithm sliding_counter --limit 1000 --window 60s ada
    rlctl limit --algorithm gcra --limit 10 --rate 5 --period 1s --peek ada
    """
    name, identity = _words(words, algorithm)
    with opened(app) as fleet:
        if fleet.is_new:
            raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="`rlctl deploy` makes it")
        settings, release = connection(fleet, As.LIMITER, service).to_json(), fleet.release
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
            decision = _by_rule(app, limiter, name, identity, asked)
        else:
            decision = _ask(limiter, _algorithm(algorithm or "", options), identity, DIRECT, asked)
        rule = limiter.rule(name) if name is not None else None
    strange = unknown_tier(rule, tier) if rule is not None else None
    known = strange is None if rule is not None and tier is not None else None
    _show(app, name or DIRECT, identity, decision, {"tier": tier, "tier_known": known})
    if strange is not None:
        app.output.note(f"warning: {strange}")
    if decision.cause is not None:
        page = page_for_cause(decision.cause)
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


def _check_readable(app: App) -> None:
    """Say why a revision that is in force cannot be read, as `rules explain` does."""
    with opened(app) as fleet:
        trouble = read_rules_in_force(fleet).trouble
    if trouble is not None:
        raise trouble


def _by_rule(app: App, limiter: Limiter, name: str, identity: str, asked: _Asked) -> Decision:
    if not limiter.has_rules:
        if Cause.NO_RULE in limiter.stats.errors:
            _check_readable(app)
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


def _show(app: App, rule: str, identity: str, decision: Decision, tier: Mapping[str, object]) -> None:
    headers = decision.headers()
    if app.output.as_json:
        app.output.result(
            {
                "schema": "rlctl.limit/1",
                "rule": rule,
                "identity": identity,
                **tier,
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
