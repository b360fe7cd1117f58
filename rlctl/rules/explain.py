"""What a rule says of one identity, and where that is counted; asking spends nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from redis.crc import key_slot

from rlctl.errors import NotFound, UsageFault
from rlctl.limiter.algorithms import ALGORITHMS
from rlctl.limiter.calls import Call
from rlctl.limiter.failures import InvalidLimit
from rlctl.limiter.keys import encode
from rlctl.rules.admin import InForce
from rlctl.rules.bucket import bucket
from rlctl.rules.counted import counted
from rlctl.rules.edit import find
from rlctl.rules.match import TIER, Template, concerns, first_fit, read_dimensions
from rlctl.rules.model import Rule, percent
from rlctl.topology.model import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A rule, and whom it is asked about."""

    rule: Rule
    identity: str
    dimensions: Mapping[str, str]
    template: Template
    tier: str | None

    @property
    def bucket(self) -> int:
        """Where the identity lies in the canary's draw."""
        return bucket(self.rule.id, self.template.identity(self.dimensions))

    @property
    def in_canary(self) -> bool:
        """Whether the canary's parameters hold for it."""
        canary = self.rule.definition.canary
        return canary is not None and self.bucket < canary.share

    @property
    def call(self) -> Call:
        """What services call for it."""
        definition = self.rule.definition
        tier = self.tier if self.tier in definition.tiers else None
        values = self.rule.arguments[tier, self.in_canary]
        return Call(
            self.rule.script, ALGORITHMS[definition.algorithm](**values), self.rule.id, shadow=definition.shadow
        )

    @property
    def tag(self) -> bytes:
        """The identity in the key."""
        return self.template.fill(self.dimensions, encode).encode("utf-8", "surrogatepass")


def subject(now: InForce, rule_id: str, identity: str, tier: str | None) -> Subject:
    """Whom a typed identity means; NotFound where there is no such rule or it does not concern them."""
    rule = find(now.required().rules, rule_id)
    templates = [Template(text) for text in rule.definition.keys]
    dimensions = typed_dimensions(rule, identity, tier)
    template = first_fit(templates, dimensions)
    if template is None or not concerns(rule.definition.match, dimensions):
        raise NotFound(
            f"rule {rule_id} does not concern {identity}",
            hint=f"it counts by {' or '.join(rule.definition.keys)}"
            + "".join(f", where {name} is {' or '.join(values)}" for name, values in rule.definition.match.items()),
        )
    return Subject(rule=rule, identity=identity, dimensions=dimensions, template=template, tier=tier)


def typed_dimensions(rule: Rule, identity: str, tier: str | None) -> dict[str, str]:
    """The dimensions that an identity on a command line names."""
    if not identity:
        raise InvalidLimit("an identity is not empty", hint="name whom it is about")
    templates = [Template(text) for text in rule.definition.keys]
    found = read_dimensions(templates, rule.definition.match, identity)
    if not found:
        names = ",".join(f"{name}=..." for name in templates[0].names)
        raise UsageFault(f"rule {rule.id} counts by more than one value", hint=f"write the identity as {names}")
    return found | ({TIER: tier} if tier is not None else {})


def explain(now: InForce, rule_id: str, identity: str, tier: str | None) -> dict[str, object]:
    """The contract of `rules explain`."""
    about = subject(now, rule_id, identity, tier)
    rule, call = about.rule, about.call
    definition = rule.definition
    key = call.key(about.tag).decode("utf-8", "surrogatepass")
    canary = definition.canary
    return {
        "schema": "rlctl.rules-explain/1",
        "rule": rule.id,
        "revision": now.required().number,
        "identity": identity,
        "dimensions": dict(about.dimensions),
        "template": about.template.text,
        "tier": tier,
        "algorithm": definition.algorithm,
        "script": {"version": rule.script.version, "sha1": rule.script.sha1},
        "values": call.algorithm.arguments(),
        "canary": canary and {"percent": percent(canary.share), "bucket": about.bucket, "in": about.in_canary},
        "shadow": definition.shadow,
        "class": definition.rule_class.value,
        "on_failure": definition.on_failure,
        "owner": definition.owner,
        "key": key,
        "slot": key_slot(key.encode("utf-8", "surrogatepass")) if now.fleet.topology.kind is Kind.CLUSTER else None,
        **counted(now, call, rule, key),
    }
