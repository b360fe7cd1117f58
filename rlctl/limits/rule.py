"""Rules, rule sets and revisions as values. Services import this module, so it must stay cheap to import. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from rlctl.limits.bucket import WHOLE

FORMAT = 1
# The key that stores the number and the digest of the revision in force. All keys of the rules are in one slot and
# never expire.
POINTER_KEY = "rlctl:{rules}"
HISTORY_KEY = "rlctl:{rules}:history"
CHANNEL = "rlctl:rules"
TAG = b"rules"
Parameters = Mapping[str, int]
# A tier (None: no tier), and whether the identity is in the canary.
VariantName = tuple[str | None, bool]


class RuleClass(StrEnum):
    """The purpose of a limit."""

    GENERAL = "general"
    SECURITY = "security"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The parameters of the canary; `share` of every 10,000 identities get them."""

    share: int
    parameters: Parameters

    def to_json(self) -> dict[str, object]:
        return {"percent": percent(self.share), "parameters": dict(self.parameters)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A rule as in the rules file, with the parameters of its script."""

    id: str
    algorithm: str
    parameters: Parameters
    keys: tuple[str, ...]
    tiers: Mapping[str, Parameters] = field(default_factory=dict)
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    on_failure: str = "open"
    rule_class: RuleClass = RuleClass.GENERAL
    shadow: bool = False
    canary: Canary | None = None
    pin: str | None = None
    owner: str | None = None

    @property
    def share(self) -> int:
        """How many of every 10,000 identities are in the canary; 0 without a canary."""
        return self.canary.share if self.canary is not None else 0

    def effective(self, tier: str | None, *, in_canary: bool) -> dict[str, int]:
        """Return the parameters for an identity: the rule's parameters, overridden by the canary, then by the tier."""
        canary = self.canary.parameters if in_canary and self.canary is not None else {}
        return {**self.parameters, **canary, **self.tiers.get(tier or "", {})}

    def variants(self) -> tuple[VariantName, ...]:
        """Return all combinations of the rule's tiers (None: no tier) and its canary."""
        canaries = (False, True) if self.canary is not None else (False,)
        return tuple((tier, canary) for canary in canaries for tier in (None, *self.tiers))

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "algorithm": self.algorithm,
            "parameters": dict(self.parameters),
            "key": list(self.keys),
            "tiers": {tier: dict(values) for tier, values in self.tiers.items()},
            "match": {name: list(values) for name, values in self.match.items()},
            "on_failure": self.on_failure,
            "class": self.rule_class.value,
            "shadow": self.shadow,
            "canary": self.canary and self.canary.to_json(),
            "pin": self.pin,
            "owner": self.owner,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRef:
    """The script of a rule: the fields that EVALSHA and the key need."""

    version: str
    sha1: str
    state: int
    args: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"version": self.version, "sha1": self.sha1, "state": self.state, "args": list(self.args)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A compiled rule: its definition, its script, and the arguments of the script for each variant."""

    definition: Definition
    script: ScriptRef
    arguments: Mapping[VariantName, Parameters]

    @property
    def id(self) -> str:
        return self.definition.id

    def values(self, tier: str | None, drawn: int) -> Parameters:
        """Return the script's arguments for a tier and the canary bucket `drawn`; an unknown tier counts as None."""
        definition = self.definition
        return self.arguments[tier if tier in definition.tiers else None, drawn < definition.share]

    def to_json(self) -> dict[str, object]:
        variants = [
            {"tier": tier, "canary": canary, "arguments": dict(values)}
            for (tier, canary), values in self.arguments.items()
        ]
        return {**self.definition.to_json(), "script": self.script.to_json(), "variants": variants}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """The rules of a revision, compiled for a release of the scripts."""

    rules: tuple[Rule, ...]
    release: str

    @property
    def digest(self) -> str:
        """A hash of the rules; equal rules have equal digests."""
        text = json.dumps([rule.to_json() for rule in self.rules], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def rule(self, rule_id: str) -> Rule | None:
        return next((rule for rule in self.rules if rule.id == rule_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The revision in force, identified by number and digest.

    The number alone is not enough: if a failover loses a revision, the next revision gets the same number.
    """

    revision: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """An immutable rule set in a fleet, with author, time, reason and the previous revision."""

    number: int
    parent: int | None
    rules: RuleSet
    by: str
    at: str
    why: str
    # For a step of a ramp: the revision before the ramp, to which a rollback returns.
    before_ramp: int | None = None

    @property
    def back_to(self) -> int | None:
        """The revision that a rollback restores; None for the first revision."""
        return self.parent if self.before_ramp is None else self.before_ramp

    @property
    def version(self) -> Version:
        """The version that the pointer key has while this revision is in force."""
        return Version(revision=self.number, digest=self.rules.digest)

    def to_text(self) -> str:
        """The JSON document that is stored in the fleet."""
        document = {
            "format": FORMAT,
            "revision": self.number,
            "parent": self.parent,
            "before_ramp": self.before_ramp,
            "digest": self.rules.digest,
            "release": self.rules.release,
            "by": self.by,
            "at": self.at,
            "why": self.why,
            "rules": [rule.to_json() for rule in self.rules.rules],
        }
        return json.dumps(document, separators=(",", ":"))


def read_revision(text: str | bytes) -> Revision:
    """Parse a stored revision; ValueError if this version of rlctl cannot read it."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"rules of format {document['format']}; this rlctl reads format {FORMAT}")
        revision = Revision(
            number=int(document["revision"]),
            parent=document["parent"],
            rules=RuleSet(rules=tuple(map(_rule, document["rules"])), release=str(document["release"])),
            by=str(document["by"]),
            at=str(document["at"]),
            why=str(document["why"]),
            # Earlier releases stored revisions without this field.
            before_ramp=document.get("before_ramp"),
        )
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as failure:
        raise ValueError(f"not a revision of rules: {failure!r:.200}") from failure
    if revision.rules.digest != document["digest"]:
        raise ValueError(f"revision {revision.number} of the rules does not match its digest")
    return revision


def revision_key(number: int) -> str:
    """The key of a revision."""
    return f"{POINTER_KEY}:revision:{number}"


def percent(share: int) -> int | float:
    """Convert a share, a number out of 10,000, to percent; an integer if possible."""
    return share * 100 // WHOLE if share * 100 % WHOLE == 0 else share * 100 / WHOLE


def _rule(document: Mapping[str, Any]) -> Rule:
    canary, script = document["canary"], document["script"]
    return Rule(
        definition=Definition(
            id=document["id"],
            algorithm=document["algorithm"],
            parameters=document["parameters"],
            keys=tuple(document["key"]),
            tiers=document["tiers"],
            match={name: tuple(values) for name, values in document["match"].items()},
            on_failure=document["on_failure"],
            rule_class=RuleClass(document["class"]),
            shadow=document["shadow"],
            canary=canary and Canary(share=round(canary["percent"] * WHOLE / 100), parameters=canary["parameters"]),
            pin=document["pin"],
            owner=document["owner"],
        ),
        script=ScriptRef(
            version=script["version"], sha1=script["sha1"], state=script["state"], args=tuple(script["args"])
        ),
        arguments={(one["tier"], one["canary"]): one["arguments"] for one in document["variants"]},
    )
