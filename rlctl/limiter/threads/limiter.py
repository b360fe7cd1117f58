"""The limiter for threads: one object for the whole process."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from rlctl.limiter.core.breaker import BreakerSettings
from rlctl.limiter.core.combined import CombinedDecision
from rlctl.limiter.core.counters import Counters, Stats
from rlctl.limiter.core.deciding import Core, costed, leased
from rlctl.limiter.core.options import Options
from rlctl.limiter.core.policy import FallbackRequest, Policy
from rlctl.limiter.core.rulebook import BoundCall, PreparedRule, RuleBook
from rlctl.limiter.core.settings import read_settings
from rlctl.limiter.threads.backend import Backend
from rlctl.limiter.threads.watch import RuleWatch
from rlctl.limits.algorithms import Algorithm, Concurrent, Costed
from rlctl.limits.decision import Decision
from rlctl.limits.failures import BrokenState, Failure
from rlctl.limits.release import Release
from rlctl.limits.rule import Rule


class Limiter:
    """Rate limiter for threads. Redis decides; if it does not answer within the budget, a failure policy decides.

    Create one limiter per process and fleet with `connect`. The limiter is thread-safe and may be used after a fork.
    The limiter runs scripts that `rlctl` has loaded, and never loads scripts itself.

    Failures: parameters that no script accepts raise InvalidLimit. A key that holds no limiter state raises
    BrokenState. Every other failure becomes a Decision of the failure policy, with the reason in `Decision.cause`;
    `stats` counts these failures.

    Example:
        with Limiter.connect(json.loads(Path("env.json").read_text()), policy="local:4", rules=True) as limiter:
            decision = limiter.decide("api-per-key", {"api_key": key}, tier="free")
            if not decision.allowed:
                return 429, decision.headers()
    """

    def __init__(self, core: Core, backend: Backend, watch: RuleWatch | None = None) -> None:
        self._core = core
        self._backend = backend
        self._watch = watch

    @classmethod
    def connect(
        cls,
        settings: Mapping[str, object],
        *,
        policy: str | Policy = "open",
        budget_ms: float = 5.0,
        release: Release | None = None,
        breaker: BreakerSettings | None = None,
        connect_timeout_ms: float = 1000.0,
        rules: bool = False,
        connections: int = 64,
        warm: int = 1,
    ) -> Self:
        """Connect to the fleet whose settings `rlctl env -o json` prints.

        Waits up to `connect_timeout_ms` for the primaries, and as long again for the rules. If no node answers,
        `connect` still returns a limiter: the failure policy decides until Redis answers, and `stats` shows the errors.

        - `settings`: the parsed output of `rlctl env -o json`. With `--service NAME`, the limiter uses the keys of
          that service.
        - `policy`: decides while Redis does not answer: `open` admits, `closed` denies, `local:N` counts in this
          process and enforces 1/N of each limit for N instances of the service; or a Policy object.
        - `budget_ms`: milliseconds that a decision may take, at least 2.
        - `release`: the scripts to call; None for the release that this version ships.
        - `breaker`: when the limiter stops calls to a failing node; see BreakerSettings.
        - `rules`: read the fleet's rules and follow their changes, so that decisions may name a rule.
        - `connections`: the maximum number of connections to one node.
        - `warm`: the number of connections to each primary that are opened in advance.

        Raises UsageFault for invalid settings or values.
        """
        counters, known = Counters(), read_settings(settings)
        book = RuleBook(counters, service=known.service) if rules else None
        core = Core(release, policy, counters, book, known.service)
        options = Options(
            budget_ms=budget_ms,
            connect_timeout_ms=connect_timeout_ms,
            connections=connections,
            breaker=breaker or BreakerSettings(),
        )
        backend = Backend(known, options, counters)
        backend.warm(warm)
        watch = RuleWatch(book, backend, connect_timeout_ms / 1000) if book is not None else None
        if watch is not None:
            watch.start(connect_timeout_ms / 1000)
        return cls(core, backend, watch)

    def decide(
        self,
        rule: Costed | str | PreparedRule,
        who: str | Mapping[str, str],
        *,
        rule_id: str = "default",
        tier: str | None = None,
        cost: int = 1,
        peek: bool = False,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Decide one request. An admitted request takes `cost` units; a denied request takes no units.

        - `rule`: an algorithm such as `FixedWindow(limit=100, window_ms=60_000)`, or the name of a rule of the fleet
          (needs `connect(rules=True)`).
        - `who`: the identity. With an algorithm, one value such as a user id, or the result of `fill`. With a rule's
          name, the dimensions of the request, such as `{"api_key": "k1", "ip": "10.0.0.7"}`, or the one value that the
          rule counts by.
        - `rule_id`: the name of an algorithm's counter; the same algorithm under two ids counts separately.
        - `tier`: the tier of the identity; the rule's base limit applies to a tier that the rule does not list.
        - `cost`: units of this request. A cost above the limit is denied with reason `impossible`.
        - `peek`: only read the state; the request takes no units.
        - `policy`: replaces the failure policy of the rule or the limiter for this call.

        If the rule does not concern the request, the request is admitted with reason `unmatched`. If the rule is
        unknown, the failure policy decides with reason `no_rule`. Raises InvalidLimit and BrokenState as the docstring
        of the class describes.
        """
        bound = self._bind(rule, who, rule_id, tier, policy)
        if isinstance(bound, Decision):
            return bound
        call, tag = costed(bound), bound.tag
        cost = 0 if peek else cost
        message = call.message(tag, cost)
        try:
            return self._core.count_reply(bound, self._backend.execute(message, tag, call.sha1))
        except (Failure, BrokenState) as failure:
            wait_ms = self._backend.retry_in_ms(tag, call.sha1)
            request = FallbackRequest(
                algorithm=call.algorithm, key=call.key(tag), quota=call.quota, cost=cost, retry_in_ms=wait_ms
            )
            return self._core.fall_back(bound, request, failure, policy)

    def decide_all(
        self, who: Mapping[str, str], *, tier: str | None = None, cost: int = 1, peek: bool = False
    ) -> tuple[Decision, ...]:
        """Decide a request by all rules of the fleet that concern it; needs `connect(rules=True)`.

        Returns the decisions in the order of the rules, up to the first denial; the request may pass if all decisions
        admit. The result is empty if no rule concerns the request. Concurrent limits are not included: call `acquire`
        for them. All decisions are made by one revision of the rules.

        The limiter reads all rules first, and charges them only if all admit, so a denied request takes no units. If
        another request takes the last unit of a rule between the read and the charge, the limiter refunds the charges
        that it has made, as far as the scripts can refund; `stats` counts `refunds` and `unrefunded`. An admission
        takes up to three rounds, and `budget_ms` bounds each of them.

        Example: `all(one.allowed for one in limiter.decide_all({"api_key": key, "ip": address}))`
        """
        if self._watch is not None:
            self._watch.ensure()
        bound = self._core.bind_all(who, tier)
        if isinstance(bound, Decision):
            return (bound,)
        rounds = CombinedDecision(self._core, bound, 0 if peek else cost, self._backend.retry_in_ms).rounds()
        try:
            commands = next(rounds)
            while True:
                commands = rounds.send(self._backend.execute_all(commands))
        except StopIteration as done:
            found: tuple[Decision, ...] = done.value
            return found

    def acquire(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        request_id: str,
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Take a lease of a concurrent limit for a request.

        The lease expires after `lease_ms` of the rule, unless it is renewed; call `release` when the request ends.
        `request_id` identifies the lease, see `new_request_id`; a repeated call with the same id renews the lease. The
        request is denied with reason `over_limit` if all leases are taken. The other parameters are those of `decide`.
        """
        return self._lease(rule, who, "acquire", request_id, rule_id, tier, policy)

    def renew(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        request_id: str,
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Extend a lease to `lease_ms` from now; denied with reason `no_lease` if it has expired."""
        return self._lease(rule, who, "renew", request_id, rule_id, tier, policy)

    def release(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        request_id: str,
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Return a lease. Has no effect if the lease has expired or was returned before."""
        return self._lease(rule, who, "release", request_id, rule_id, tier, policy)

    def peek(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Decision:
        """Return a decision whose `remaining` is the number of free leases; takes no lease.

        `Decision.allowed` has no meaning here.
        """
        return self._lease(rule, who, "peek", "", rule_id, tier, policy)

    @contextmanager
    def hold(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        *,
        rule_id: str = "default",
        tier: str | None = None,
        policy: str | Policy | None = None,
    ) -> Iterator[Decision]:
        """Hold a lease for the length of a `with` block; check `allowed` inside the block.

        The lease is returned at the end of the block. It is not renewed, so the block must end within `lease_ms`.

        Example:
            with limiter.hold("exports", user) as decision:
                if not decision.allowed:
                    return 429, decision.headers()
                export(user)
        """
        request_id = new_request_id()
        decision = self.acquire(rule, who, request_id, rule_id=rule_id, tier=tier, policy=policy)
        try:
            yield decision
        finally:
            if decision.allowed:
                self.release(rule, who, request_id, rule_id=rule_id, tier=tier, policy=policy)

    @property
    def has_rules(self) -> bool:
        """Whether the limiter has read rules of the fleet."""
        return self._core.book is not None and not self._core.book.is_empty

    def rule(self, name: str) -> Rule | None:
        """Return the rule with this name in the revision in use; None if the revision lacks the rule."""
        prepared = self._core.book.rule(name) if self._core.book is not None else None
        return prepared.rule if prepared is not None else None

    @property
    def stats(self) -> Stats:
        """A snapshot of the counters, for metrics and logs."""
        return self._core.counters.snapshot()

    def close(self) -> None:
        """Close all connections; the failure policy makes later decisions."""
        if self._watch is not None:
            self._watch.close()
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _bind(
        self,
        rule: Algorithm | str | PreparedRule,
        who: str | Mapping[str, str],
        rule_id: str,
        tier: str | None,
        policy: str | Policy | None,
    ) -> BoundCall | Decision:
        if self._watch is not None:
            self._watch.ensure()
        return self._core.bind(rule, who, rule_id, tier, policy)

    def _lease(
        self,
        rule: Concurrent | str,
        who: str | Mapping[str, str],
        verb: str,
        request_id: str,
        rule_id: str,
        tier: str | None,
        policy: str | Policy | None,
    ) -> Decision:
        bound = self._bind(rule, who, rule_id, tier, policy)
        if isinstance(bound, Decision):
            return bound
        call, tag = leased(bound), bound.tag
        message = call.message(tag, verb, request_id)
        request = FallbackRequest(
            algorithm=call.algorithm, key=call.key(tag), quota=call.quota, verb=verb, request_id=request_id
        )
        try:
            decision = self._core.count_reply(bound, self._backend.execute(message, tag, call.sha1))
        except (Failure, BrokenState) as failure:
            return self._core.fall_back(bound, request, failure, policy)
        if verb == "release":
            self._core.lease_returned(bound, request, policy)
        return decision


def new_request_id() -> str:
    """Return a random id for the lease of one request; only 8 characters, to save memory in Redis."""
    return secrets.token_hex(4)
