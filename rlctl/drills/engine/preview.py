"""Preview of a run: its steps with their nodes, and the expected loss. Pure."""

from rlctl.drills.scenario.model import (
    Action,
    Await,
    AwaitedCondition,
    Burst,
    Cut,
    Failover,
    Heal,
    Hold,
    Kill,
    LoadDrillScript,
    Pause,
    Restart,
    Resume,
    Scenario,
)
from rlctl.lab.partition import Flow, partition_by_role
from rlctl.lab.roles import LabRole, Roles
from rlctl.topology.nodes import NodeSpec


def preview(scenario: Scenario, roles: Roles) -> dict[str, object]:
    """The JSON object that `failover-drill run --dry-run` prints for a scenario."""
    return {
        "scenario": scenario.name,
        "variant": scenario.variant or None,
        "kind": scenario.kind,
        "victim": roles.victim.endpoint,
        "replicas": [spec.endpoint for spec in roles.replicas],
        "steps": [describe(action, roles) for action in scenario.actions],
        "load": [f"{side}: {scenario.load.rate} operations/s at most" for side in scenario.load.sides],
        "expected": [one.describe() for one in scenario.expectations],
        "expected_loss": _loss(scenario),
        "breaks": scenario.breaks,
    }


def describe(action: Action, roles: Roles) -> str:  # noqa: C901  one line a member is the point of this table
    """Describe a step in one line, with its nodes."""
    match action:
        case Hold(ms=ms):
            return f"let the load run for {ms} ms"
        case Await(condition=condition, within_ms=within_ms):
            return f"wait until {_condition(condition)}, at most {within_ms / 1000:g} s"
        case Burst():
            return "the hot user begins to ask for more than the limit"
        case Cut():
            return f"cut {_planned_partition(action, roles)}"
        case Heal():
            return "heal all cuts"
        case Kill(role=role):
            return f"SIGKILL {_names(roles, role)}"
        case Pause(role=role):
            return f"SIGSTOP {_names(roles, role)}"
        case Resume(role=role):
            return f"SIGCONT {_names(roles, role)}"
        case Restart(role=role):
            return f"start {_names(roles, role)} again"
        case Failover(how=how):
            return f"order a failover: {how}"
        case LoadDrillScript():
            return "load the script on every node of the shard"


def _condition(condition: AwaitedCondition) -> str:
    match condition:
        case AwaitedCondition.PROMOTED:
            return "a replica is promoted"
        case AwaitedCondition.SERVED:
            return "the promoted node acknowledges"
        case AwaitedCondition.SILENT:
            return "the client that is cut off gets no answers"
        case AwaitedCondition.REFUSED:
            return "something is refused"
        case AwaitedCondition.RETURNED:
            return "the shard is whole again"
        case AwaitedCondition.RESUMED:
            return "operations are acknowledged again"
        case AwaitedCondition.USED_UP:
            return "the hot user has used the limit up"


def _planned_partition(cut: Cut, roles: Roles) -> str:
    return partition_by_role(roles, cut.flow, cut.role).describe()


def _names(roles: Roles, role: LabRole) -> str:
    return ", ".join(_name(spec) for spec in roles.of(role)) or "the promoted node"


def _name(spec: NodeSpec) -> str:
    return f"{spec.name} ({spec.endpoint})"


def _loss(scenario: Scenario) -> int | None:
    """Expected number of lost writes if a replication cut precedes a kill: rate times lag. None in other scenarios."""
    fenced = "consistency.min_replicas" in scenario.settings or scenario.load.wait_replicas > 0
    cuts = [place for place, action in enumerate(scenario.actions) if _stops_replication(action)]
    if fenced or not cuts:
        return None
    after = scenario.actions[cuts[0] :]
    kills = [place for place, action in enumerate(after) if isinstance(action, Kill) and action.role is LabRole.VICTIM]
    if not kills:
        return None
    lag_ms = sum(action.ms for action in after[: kills[0]] if isinstance(action, Hold))
    return round(scenario.load.rate * lag_ms / 1000)


def _stops_replication(action: Action) -> bool:
    return isinstance(action, Cut) and action.flow is Flow.REPLICATION
