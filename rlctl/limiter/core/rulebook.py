"""The limiter's copy of the fleet's rules: the last usable revision, prepared for decisions. No I/O."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rlctl.errors import RlctlError
from rlctl.limiter.core.calls import ConcurrentCall, CostedCall
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.policy import read_policy
from rlctl.limiter.core.settings import Endpoint
from rlctl.limits.algorithms import ALGORITHMS, Concurrent
from rlctl.limits.bucket import takes_part
from rlctl.limits.failures import Cause, ErrorReply, Failure, InvalidLimit, failure_of
from rlctl.limits.keys import encode
from rlctl.limits.match import TIER, Template, concerns, first_fit, plain_dimension
from rlctl.limits.resp import Reply, command
from rlctl.limits.rule import CHANNEL, POINTER_KEY, Definition, Rule, VariantName, Version, read_revision, revision_key

POINTER = command(b"HMGET", POINTER_KEY.encode(), b"revision", b"digest")
SUBSCRIBE = command(b"SUBSCRIBE", CHANNEL.encode())
_COMPLAIN_EVERY_S = 10.0
# The errors from reading a revision that this version cannot use: a later rlctl may store algorithms, arguments or
# policies that this version does not know.
_UNUSABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RlctlError)
_log = logging.getLogger("rlctl.limiter")


@dataclass(frozen=True, slots=True)
class BoundCall:
    """A packed call bound to one identity by its hash tag, with the rule's failure policy and shadow flag."""

    call: CostedCall | ConcurrentCall
    tag: bytes
    policy: str | None = None
    shadow: bool = False


class PreparedRule:
    """A rule with its calls packed. The constructor raises if this version cannot decide by the rule."""

    def __init__(self, rule: Rule, service: str | None = None) -> None:
        definition = rule.definition
        self.rule = rule
        self._service = service
        self._templates = tuple(Template(text) for text in definition.keys)
        names = (name for template in self._templates for name in template.names)
        self._dimensions = tuple(dict.fromkeys((*names, *definition.match)))
        self.has_leases = definition.algorithm == Concurrent.name
        self._plain = plain_dimension(self._templates)
        self._share = definition.canary.share if definition.canary is not None else 0
        self._calls = {variant: self._call(variant) for variant in definition.variants()}
        read_policy(definition.on_failure)
        _check_texts(definition)

    def bind(self, identity: str | Mapping[str, str], tier: str | None) -> BoundCall | None:
        """Return the call that decides a request; None if the rule does not concern the request.

        `identity` is the one value that the rule counts by, or the request's dimensions by name. A value that is not
        text raises InvalidLimit.
        """
        definition = self.rule.definition
        dimensions = self._named(identity) if isinstance(identity, str) else identity
        if not isinstance(dimensions, Mapping):
            raise InvalidLimit(f"rule {self.rule.id}: an identity must be text or dimensions by name, not {identity!r}")
        if tier is not None:
            dimensions = {**dimensions, TIER: tier}
        self._check(dimensions)
        if definition.match and not concerns(definition.match, dimensions):
            return None
        template = first_fit(self._templates, dimensions)
        if template is None:
            return None
        in_canary = bool(self._share) and takes_part(self.rule.id, template.identity(dimensions), self._share)
        call = self._calls[tier if tier in definition.tiers else None, in_canary]
        tag = template.fill(dimensions, encode).encode("utf-8", "surrogatepass")
        return BoundCall(call, tag, definition.on_failure, definition.shadow)

    def _check(self, dimensions: Mapping[str, object]) -> None:
        """Raise InvalidLimit for values that are not text: a number meets no condition, so the rule would not apply."""
        for name in self._dimensions:
            value = dimensions.get(name)
            if value is not None and not isinstance(value, str):
                raise InvalidLimit(f"rule {self.rule.id}: {name} must be text, not {value!r}")

    def _named(self, identity: str) -> dict[str, str]:
        if self._plain is None:
            names = ", ".join(self._templates[0].names)
            raise InvalidLimit(f"rule {self.rule.id} counts by {names}: pass them by name, such as {{'{names}': ...}}")
        if not identity:
            raise InvalidLimit("an identity must not be empty")
        return {self._plain: identity}

    def _call(self, variant: VariantName) -> CostedCall | ConcurrentCall:
        definition = self.rule.definition
        algorithm = ALGORITHMS[definition.algorithm](**self.rule.arguments[variant])
        if isinstance(algorithm, Concurrent):
            return ConcurrentCall(
                self.rule.script, algorithm, self.rule.id, shadow=definition.shadow, service=self._service
            )
        return CostedCall(self.rule.script, algorithm, self.rule.id, shadow=definition.shadow, service=self._service)


@dataclass(frozen=True, slots=True)
class _Known:
    """The rules of one revision. A decision reads this object once, so all its rules are from one revision."""

    rules: Mapping[str, PreparedRule]
    costed_rules: tuple[PreparedRule, ...]
    version: Version | None


_NOTHING = _Known({}, (), None)


class RuleBook:
    """The last usable revision of the rules. Updates replace the whole revision, so decisions need no lock."""

    def __init__(
        self, counters: Counters, clock: Callable[[], float] = time.monotonic, *, service: str | None = None
    ) -> None:
        self.counters = counters
        self._service = service
        self._clock = clock
        self._known = _NOTHING
        self._unusable_version: Version | None = None
        self._next_log_s = 0.0

    @property
    def is_empty(self) -> bool:
        return self._known.version is None

    def rule(self, rule_id: str) -> PreparedRule | None:
        """Return the rule with this id; None if the revision lacks the rule."""
        return self._known.rules.get(rule_id)

    def costed_rules(self) -> tuple[PreparedRule | str, ...]:
        """Return the rules that take a cost, in the file's order.

        Before the limiter has read a revision of the rules, returns only the name `*`. No rule has this name, so the
        failure policy decides.
        """
        known = self._known
        return ("*",) if known.version is None else known.costed_rules

    def newer_version(self, reply: Reply) -> Version | None:
        """Return the revision to read after this reply to POINTER; None if the known revision is still in force.

        Also returns None if the fleet has no rules: the known rules remain in use, and the limiter counts and logs the
        error.
        """
        match reply:
            case [bytes(revision), bytes(digest)]:
                version = _version(revision, digest)
                if version == self._known.version:
                    self.counters.saw_rules(version.revision)
                    return None
                return version
            case [None, None]:
                self.reading_failed(Failure(Cause.NO_RULE, "the fleet has no rules in force"))
                return None
            case _:
                raise Failure(Cause.ERROR, f"not a pointer to rules: {reply!r}")

    def learn(self, version: Version, reply: Reply) -> None:
        """Replace the known rules with this revision.

        If the revision is missing or unusable, logs the error and keeps the known rules.
        """
        try:
            revision = read_revision(reply if isinstance(reply, bytes) else b"")
            rules = {rule.id: PreparedRule(rule, self._service) for rule in revision.rules.rules}
        except _UNUSABLE as failure:
            self._refuse(version, Failure(Cause.NO_RULE, f"revision {version.revision} of the rules: {failure!r:.500}"))
            return
        self._known = _Known(rules, tuple(rule for rule in rules.values() if not rule.has_leases), version)
        self._unusable_version = None
        self.counters.saw_rules(version.revision)
        _log.info("rules: revision %d with %d rules", version.revision, len(rules))

    def _refuse(self, version: Version, failure: Failure) -> None:
        """Count each attempt to read an unusable revision, and log the first attempt."""
        self.counters.failed(failure)
        if version != self._unusable_version:
            self._unusable_version = version
            _log.error("revision cannot be used, the previous rules remain in use: %s", failure)

    def reading_failed(self, trouble: Failure | RlctlError) -> None:
        """Record that the rules could not be read; the known rules remain in use."""
        failure = trouble if isinstance(trouble, Failure) else Failure(Cause.ERROR, trouble.message)
        self.counters.failed(failure)
        self._log_rarely(
            "rules cannot be read, %s: %s",
            "the previous rules remain in use" if self._known.rules else "no rules are known",
            failure,
        )

    def rule_missing(self, rule_id: str) -> None:
        """Record that the failure policy decides, because the rule is unknown."""
        known = "no rules were read yet" if self.is_empty else f"the rules are {', '.join(self._known.rules)}"
        self.counters.failed(Failure(Cause.NO_RULE, f"no rule {rule_id}: {known}"))
        self._log_rarely("rule %s is not known, the failure policy decides: %s", rule_id, known)

    def _log_rarely(self, text: str, *words: object) -> None:
        now_s = self._clock()
        if now_s >= self._next_log_s:
            self._next_log_s = now_s + _COMPLAIN_EVERY_S
            _log.error(text, *words)


def _check_texts(definition: Definition) -> None:
    """Raise ValueError for values that are not text, because every decision by the rule would fail."""
    patterns = (pattern for patterns in definition.match.values() for pattern in patterns)
    texts = (definition.on_failure, *definition.keys, *definition.match, *patterns)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"rule {definition.id}: on_failure, keys and conditions must be text")


def _version(revision: bytes, digest: bytes) -> Version:
    try:
        return Version(revision=int(revision), digest=digest.decode())
    except ValueError as failure:
        raise Failure(Cause.ERROR, f"not a pointer to rules: {failure}") from failure


def read_command(version: Version) -> bytes:
    """Return the command that reads a revision."""
    return command(b"GET", revision_key(version.revision).encode())


def require_success(reply: Reply, asked: Endpoint) -> Reply:
    """Return the reply; raise Failure if the reply is an error."""
    if isinstance(reply, ErrorReply):
        raise failure_of(reply, asked)
    return reply
