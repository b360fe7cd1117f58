"""A saved plan: written by --plan-out, accepted by --plan only while nothing has moved. Pure."""

import json
from dataclasses import dataclass

from rlctl.errors import InvalidFile, StalePlan
from rlctl.plan.planner import Plan
from rlctl.plan.steps import describe


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """What is compared; the steps themselves are always planned anew."""

    fleet: str
    topology: str
    observed: str
    steps: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str, path: str) -> "SavedPlan":
        """Read the file form."""
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
                f"{path}:1: not a plan of rlctl", hint="write one with `rlctl deploy --dry-run --plan-out FILE`"
            ) from failure

    def check(self, plan: Plan) -> None:
        """StalePlan says what moved since the plan was saved."""
        moved = [
            what
            for what, was, now in (
                ("the fleet's name", self.fleet, plan.fleet),
                ("the topology", self.topology, plan.topology),
                ("the fleet", self.observed, plan.observed),
                ("what rlctl would do", self.steps, tuple(describe(step) for step in plan.steps)),
            )
            if was != now
        ]
        if moved:
            raise StalePlan(f"the saved plan is stale: {moved[0]} has changed since", hint="plan again and read it")


def to_text(plan: Plan) -> str:
    """The file form; holds no secret."""
    return json.dumps(plan.to_json(), indent=2) + "\n"
