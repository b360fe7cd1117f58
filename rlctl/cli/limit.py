"""rlctl limit: makes one decision from the command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.cli.opened import opened
from rlctl.cli.options import Duration
from rlctl.errors import NotFound, UsageFault
from rlctl.limiter import ALGORITHMS, Algorithm, Cause, Concurrent, Decision, Limiter, Source, new_request_id
from rlctl.operations.env import EnvUser, connection
from rlctl.rules.explain import typed_dimensions, unknown_tier
from rlctl.rules.in_force import read_rules_in_force
from rlctl.runbooks.answers import page_for_cause

# Longer than the budget of a service, because the command must also open its first connection within this time.
BUDGET_S = 1.0
DIRECT = "direct"

# The parameters of each algorithm, with the option that sets each parameter.
_PARAMETERS: dict[str, dict[str, str]] = {
    "token_bucket": {"capacity": "limit", "rate": "rate", "period_ms": "period"},
    "gcra": {"burst": "limit", "rate": "rate", "period_ms": "period"},
    "fixed_window": {"limit": "limit", "window_ms": "window"},
    "sliding_counter": {"limit": "limit", "window_ms": "window"},
    "rolling_window": {"limit": "limit", "window_ms": "window", "min_interval_ms": "min_interval"},
    "rolling_ring": {"limit": "limit", "window_ms": "window", "min_interval_ms": "min_interval"},
    "concurrent": {"limit": "limit", "lease_ms": "lease"},
}


@click.command(cls=HelpCommand)
@click.argument("words", nargs=-1, required=True, metavar="[RULE] IDENTITY")
@click.option("--algorithm", type=click.Choice(list(_PARAMETERS)), help="Algorithm to use instead of a rule.")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Limit, capacity or burst.")
@click.option("--window", type=Duration(), default="60s", show_default=True, help="Length of the window or counter.")
@click.option("--min-interval", type=Duration(), help="For rolling windows: shortest time between two calls.")
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="For buckets: tokens that one period adds.",
)
@click.option(
    "--period",
    type=Duration(),
    default="60s",
    show_default=True,
    help="For buckets: time in which --rate tokens are added.",
)
@click.option(
    "--lease", type=Duration(), default="30s", show_default=True, help="For concurrent: time until a lease expires."
)
@click.option("--request-id", help="For concurrent: id of the lease [a new one].")
@click.option("--cost", type=click.IntRange(min=1), default=1, show_default=True, help="Units that the request uses.")
@click.option("--peek", is_flag=True, help="Show the state without counting.")
@click.option("--tier", help="With a rule: tier of the identity. An unknown tier gets the base limit and a warning.")
@click.option("--service", metavar="S", help="Service whose keys and Redis user to use.")
@click.option(
    "--on-failure",
    type=click.Choice(["open", "closed", "local"]),
    help="Policy while Redis does not answer [the rule's, else closed].",
)
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
    """Make one decision and show its response headers.

    RULE is a rule of the fleet, as listed by `rlctl rules status`. IDENTITY is the value that the rule counts by. If
    the rule counts by several values, write user=ada,endpoint=/x. The exit code is 0 even if the request is denied.

    Examples:
      rlctl limit api-per-key ada --tier free
      rlctl limit api-per-key ada --service checkout
      rlctl limit --algorithm sliding_counter --limit 1000 --window 60s ada
      rlctl limit --algorithm gcra --limit 10 --rate 5 --period 1s --peek ada
    """
    name, identity = _words(words, algorithm)
    with opened(app) as fleet:
        if fleet.is_new:
            raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="run `rlctl deploy`")
        settings, release = connection(fleet, EnvUser.LIMITER, service).to_json(), fleet.release
    budget_ms = app.timeout(BUDGET_S) * 1000
    request = _RequestOptions(
        cost=cost, peek=peek, request_id=request_id or new_request_id(), tier=tier, policy=on_failure
    )
    with Limiter.connect(
        settings,
        policy=on_failure or "closed",
        budget_ms=budget_ms,
        connect_timeout_ms=budget_ms,
        release=release,
        rules=name is not None,
    ) as limiter:
        if name is not None:
            decision = _decide_by_rule(app, limiter, name, identity, request)
        else:
            decision = _decide(limiter, _algorithm(algorithm or "", options), identity, DIRECT, request)
        rule = limiter.rule(name) if name is not None else None
    warning = unknown_tier(rule, tier) if rule is not None else None
    known = warning is None if rule is not None and tier is not None else None
    _show(app, name or DIRECT, identity, decision, {"tier": tier, "tier_known": known})
    if warning is not None:
        app.output.note(f"warning: {warning}")
    if decision.cause is not None:
        page = page_for_cause(decision.cause)
        hint = f"; `rlctl runbook show {page}`" if page else ""
        app.output.note(f"Redis did not decide: {decision.cause}{hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RequestOptions:
    cost: int
    peek: bool
    request_id: str
    tier: str | None
    policy: str | None


def _words(words: tuple[str, ...], algorithm: str | None) -> tuple[str | None, str]:
    if len(words) > 2 or (algorithm and len(words) > 1):
        raise UsageFault("too many arguments: a decision is for one identity", hint="see `rlctl limit --help`")
    if algorithm is None and len(words) == 1:
        raise UsageFault("the rule is missing", hint="give a rule before the identity, or --algorithm")
    return (None, words[0]) if algorithm is not None else (words[0], words[1])


def _check_readable(app: App) -> None:
    """Raise the error if the revision in force cannot be read."""
    with opened(app) as fleet:
        trouble = read_rules_in_force(fleet).trouble
    if trouble is not None:
        raise trouble


def _decide_by_rule(app: App, limiter: Limiter, name: str, identity: str, request: _RequestOptions) -> Decision:
    if not limiter.has_rules:
        if Cause.NO_RULE in limiter.stats.errors:
            _check_readable(app)
            raise NotFound(f"no rule {name}: no rules are in force", hint="`rlctl rules apply FILE`, or --algorithm")
        # No node answers, so the failure policy decides, as it does for a service.
        return limiter.decide(name, identity, policy=request.policy)
    rule = limiter.rule(name)
    if rule is None:
        raise NotFound(f"no rule {name} is in force", hint="`rlctl rules status` lists the rules in force")
    dimensions = typed_dimensions(rule, identity, None)
    decision = _decide(
        limiter, name, dimensions, name, request, has_leases=rule.definition.algorithm == Concurrent.name
    )
    if decision.source is Source.RULES:
        raise NotFound(
            f"rule {name} does not apply to {identity}", hint=f"`rlctl rules explain {name} IDENTITY` shows why"
        )
    return decision


def _decide(
    limiter: Limiter,
    rule: Algorithm | str,
    identity: str | Mapping[str, str],
    rule_id: str,
    request: _RequestOptions,
    *,
    has_leases: bool = False,
) -> Decision:
    more: Any = {"rule_id": rule_id, "tier": request.tier, "policy": request.policy}
    if not isinstance(rule, Concurrent | str) or (isinstance(rule, str) and not has_leases):
        return limiter.decide(rule, identity, cost=request.cost, peek=request.peek, **more)
    if request.peek:
        return limiter.peek(rule, identity, **more)
    return limiter.acquire(rule, identity, request.request_id, **more)


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
