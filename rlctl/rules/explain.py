"""Explains a rule for one identity: parameters, key, node and count. Read-only: it consumes no units."""

from collections.abc import Mapping
from dataclasses import dataclass

from rlctl.errors import NotFound, UsageFault
from rlctl.execute.service_users import check_service
from rlctl.limiter.core.calls import Call
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.limits.bucket import bucket
from rlctl.limits.failures import InvalidLimit
from rlctl.limits.keys import encode
from rlctl.limits.match import TIER, Template, concerns, first_fit, read_dimensions
from rlctl.limits.rule import Rule, percent
from rlctl.limits.slots import key_slot
from rlctl.rules.edit import find_rule
from rlctl.rules.in_force import RulesInForce
from rlctl.rules.key_usage import key_usage
from rlctl.topology.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedIdentity:
    """A rule and one identity that the rule applies to."""

    rule: Rule
    identity: str
    dimensions: Mapping[str, str]
    template: Template
    tier: str | None
    service: str | None

    @property
    def bucket(self) -> int:
        """The canary bucket of the identity, 0 to 9,999."""
        return bucket(self.rule.id, self.template.identity(self.dimensions))

    @property
    def in_canary(self) -> bool:
        return self.bucket < self.rule.definition.share

    @property
    def call(self) -> Call:
        """The call that services make for this identity."""
        definition = self.rule.definition
        values = self.rule.values(self.tier, self.bucket)
        return Call(
            self.rule.script,
            ALGORITHMS[definition.algorithm](**values),
            self.rule.id,
            shadow=definition.shadow,
            service=self.service,
        )

    @property
    def tag(self) -> bytes:
        """The hash tag of the key."""
        return self.template.fill(self.dimensions, encode).encode("utf-8", "surrogatepass")


def match_identity(
    now: RulesInForce, rule_id: str, identity: str, tier: str | None, service: str | None
) -> MatchedIdentity:
    """Match an identity from the command line; NotFound if the rule does not exist or does not concern the identity."""
    rule = find_rule(now.required().rules, rule_id)
    templates = [Template(text) for text in rule.definition.keys]
    dimensions = typed_dimensions(rule, identity, tier)
    template = first_fit(templates, dimensions)
    if template is None or not concerns(rule.definition.match, dimensions):
        raise NotFound(
            f"rule {rule_id} does not concern {identity}",
            hint=f"the rule counts by {' or '.join(rule.definition.keys)}"
            + "".join(f", where {name} is {' or '.join(values)}" for name, values in rule.definition.match.items()),
        )
    return MatchedIdentity(
        rule=rule, identity=identity, dimensions=dimensions, template=template, tier=tier, service=service
    )


def typed_dimensions(rule: Rule, identity: str, tier: str | None) -> dict[str, str]:
    """Parse an identity of a command line into dimensions: one value, or `name=value` pairs separated by commas."""
    if not identity:
        raise InvalidLimit("an identity must not be empty", hint="name an identity, such as a user id")
    templates = [Template(text) for text in rule.definition.keys]
    found = read_dimensions(templates, rule.definition.match, identity)
    if not found:
        names = ",".join(f"{name}=..." for name in templates[0].names)
        raise UsageFault(f"rule {rule.id} counts by more than one value", hint=f"write the identity as {names}")
    return found | ({TIER: tier} if tier is not None else {})


def unknown_tier(rule: Rule, tier: str | None) -> str | None:
    """A warning if the rule has no such tier, so that the base limit applies; None otherwise."""
    definition = rule.definition
    named = {name for text in definition.keys for name in Template(text).names} | set(definition.match)
    if tier is None or tier in definition.tiers or TIER in named:
        return None
    has = f"its tiers are {', '.join(definition.tiers)}" if definition.tiers else "it has no tiers"
    return f"rule {rule.id} has no tier {tier} ({has}): the base limit applies, in services too"


def explain(
    now: RulesInForce, rule_id: str, identity: str, tier: str | None, service: str | None = None
) -> dict[str, object]:
    """The document that `rules explain -o json` prints."""
    if service is not None:
        check_service(now.fleet, service)
    about = match_identity(now, rule_id, identity, tier, service)
    rule, call = about.rule, about.call
    definition = rule.definition
    key = call.key(about.tag).decode("utf-8", "surrogatepass")
    canary = definition.canary
    return {
        "schema": "rlctl.rules-explain/1",
        "rule": rule.id,
        "revision": now.required().number,
        "identity": identity,
        **({"service": service} if service else {}),
        "dimensions": dict(about.dimensions),
        "template": about.template.text,
        "tier": tier,
        "tier_known": None if tier is None else unknown_tier(rule, tier) is None,
        "algorithm": definition.algorithm,
        "script": {"version": rule.script.version, "sha1": rule.script.sha1},
        "values": call.algorithm.arguments(),
        "canary": canary and {"percent": percent(canary.share), "bucket": about.bucket, "in": about.in_canary},
        "shadow": definition.shadow,
        "class": definition.rule_class.value,
        "on_failure": definition.on_failure,
        "owner": definition.owner,
        "key": key,
        "slot": key_slot(key) if now.fleet.topology.kind is Kind.CLUSTER else None,
        **key_usage(now, call, rule, key),
    }
