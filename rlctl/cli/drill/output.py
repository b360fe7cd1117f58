"""Output of `rlctl failover-drill`: scenarios, previews and runs."""

from collections.abc import Sequence

from rlctl.cli.output import Output
from rlctl.drills.engine.preview import describe
from rlctl.drills.report import text
from rlctl.drills.report.values import Document
from rlctl.drills.scenario.library import FLAGSHIPS
from rlctl.drills.scenario.load import ScenarioFile
from rlctl.drills.scenario.model import Scenario
from rlctl.lab.roles import planned_roles
from rlctl.lab.twin import twin_of
from rlctl.topology.model import Kind, TargetName, Topology

_PLAIN = Topology(name="drill", kind=Kind.CLUSTER, target=TargetName.LOCAL)


def show_run(output: Output, run: Document) -> None:
    """Show the verdict of a run, then expectations and figures."""
    for line in text.heading(run):
        output.line(line)
    output.line("")
    output.table(text.EXPECTED_HEADERS, text.expected_rows(run))
    output.line("")
    output.table(text.FIGURE_HEADERS, text.figure_rows(run))
    output.line("")
    for line in text.closing(run):
        output.line(line)
    output.line("")


def scenario_json(file: ScenarioFile, variants: Sequence[Scenario]) -> dict[str, object]:
    """Return the JSON of a scenario. Its description is the same for all variants."""
    one = variants[0]
    return {
        "name": file.name,
        "title": file.title,
        "kinds": list(file.kinds),
        "variants": [variant.variant for variant in variants if variant.variant],
        "flagship": file.name in FLAGSHIPS,
        "teaches": one.teaches,
        "needs": one.needs,
        "breaks": one.breaks,
        "claim": one.claim,
    }


def show_scenarios(output: Output, files: Sequence[ScenarioFile], runs: Sequence[Document]) -> None:
    output.table(
        ["SCENARIO", "KINDS", "SHOWS"],
        [[f"{file.name}{' *' if file.name in FLAGSHIPS else ''}", ", ".join(file.kinds), file.title] for file in files],
        title="* the default of `run`",
    )
    if not runs:
        return
    output.line("")
    output.table(
        ["RUN", "KIND", "STATE", "VERDICT"],
        [[str(one["id"]), str(one["kind"]), str(one["state"]), str(one["verdict"] or "-")] for one in runs],
    )


def show_scenario(output: Output, file: ScenarioFile, variants: Sequence[Scenario]) -> None:
    """Show what a scenario does, before it runs."""
    one = variants[0]
    output.line(f"{file.name}: {file.title}")
    output.line("")
    rows = [("teaches", one.teaches), ("claims", one.claim), ("needs", one.needs), ("breaks", one.breaks)]
    rows += [("kinds", ", ".join(file.kinds))]
    if one.variant:
        rows.append(("variants", ", ".join(variant.variant for variant in variants)))
    if one.settings:
        rows.append(("settings", ", ".join(f"{path} {value}" for path, value in one.settings.items())))
    output.table(["", ""], rows)
    output.line("")
    roles = planned_roles(twin_of(_PLAIN, one.kind, one.settings, stock_timers=False))
    steps = [describe(action, roles) for action in one.actions]
    output.table(["STEP", f"ON A TWIN, {one.kind}"], [[str(number), step] for number, step in enumerate(steps, 1)])
    output.line("")
    output.table(["EXPECTED", "WHY"], [[expectation.describe(), expectation.why] for expectation in one.expectations])


def show_preview(output: Output, plan: Document) -> None:
    """Show what a run would break and lose."""
    variant = f" ({plan['variant']})" if plan["variant"] else ""
    output.line(f"{plan['scenario']}{variant} would break {plan['breaks']}")
    rows = [
        ("victim", plan["victim"]),
        ("replicas", ", ".join(plan["replicas"]) or "-"),
        *(("load", one) for one in plan["load"]),
    ]
    if plan["expected_loss"] is not None:
        rows.append(("loss", f"about {plan['expected_loss']:,} acknowledged writes: the rate times the lag"))
    rows += [("expected", one) for one in plan["expected"]]
    output.table(["", ""], rows)
    output.table(["STEP", ""], [[str(number), step] for number, step in enumerate(plan["steps"], 1)])
    output.line("")
