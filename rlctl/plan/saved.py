"""A saved plan: --plan-out writes it, and --plan accepts it while topology and fleet are unchanged. Pure."""

import json
from dataclasses import dataclass

from rlctl.errors import InvalidFile, StalePlan
from rlctl.plan.planner import Plan
from rlctl.plan.steps import describe

_WRITE = "`rlctl deploy --dry-run --plan-out FILE`"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """The parts of a saved plan that deploy compares with its new plan; deploy always plans the steps again."""

    fleet: str
    topology: str
    observed: str
    steps: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str, path: str) -> "SavedPlan":
        """Parse a saved plan; `path` appears in the message of InvalidFile."""
        try:
            document = json.loads(text)
            fingerprints = document["fingerprints"]
            return cls(
                fleet=str(document["fleet"]),
                topology=str(fingerprints["topology"]),
                observed=str(fingerprints["observed"]),
                steps=tuple(str(step["text"]) for step in document["steps"]),
            )
        except (ValueError, KeyError, TypeError, RecursionError) as failure:
            raise InvalidFile(
                f"{path}:1: this is not a plan written by rlctl", hint=f"write one with {_WRITE}"
            ) from failure

    def check(self, plan: Plan) -> None:
        """Raise StalePlan if the fleet, the topology or the steps have changed since this plan was saved."""
        changed = [
            what
            for what, was, now in (
                ("the fleet's name", self.fleet, plan.fleet),
                ("the topology", self.topology, plan.topology),
                ("the fleet", self.observed, plan.observed),
                ("the list of steps", self.steps, tuple(describe(step) for step in plan.steps)),
            )
            if was != now
        ]
        if changed:
            text = f"the saved plan is stale: {changed[0]} has changed since"
            raise StalePlan(text, hint=f"save a new one: {_WRITE}")


def to_text(plan: Plan) -> str:
    """Format a plan as a file; it contains no secret."""
    return json.dumps(plan.to_json(), indent=2) + "\n"
