"""JSON Schemas of scenario files and of the results of runs. Pure."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from rlctl.drills.judge.admission import CAUSES
from rlctl.drills.judge.verdict import DrillVerdict
from rlctl.drills.scenario.model import AwaitedCondition, FailoverKind, LoadMode, Metric, Side
from rlctl.lab.partition import Flow
from rlctl.lab.roles import LabRole
from rlctl.topology.model import Kind
from rlctl.topology.table import SECTIONS

Schema = dict[str, object]

_TEXT: Schema = {"type": "string", "minLength": 1}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_AMOUNT: Schema = {"type": "number", "minimum": 0}
_TIMES = ("detect", "elect", "serve", "divergence", "overlap", "converge")
_CLASSES = ("attempted", "acked", "refused", "indeterminate", "not_sent")

_TEXTS = {
    "title": "what it shows, in one line",
    "teaches": "what an operator learns from it",
    "needs": "what the fleet must have",
    "breaks": "what is broken on purpose",
    "claim": "what the run is expected to show",
}

# In a scenario file, the name of a parameter may replace a word, a number or a duration.
_PARAMETER: Schema = {"type": "string", "pattern": "^[a-z][a-z_]*$", "description": "the name of a parameter"}
_SPAN: Schema = {"description": "a duration such as 500ms, 0, or a parameter's name", "type": ["string", "integer"]}
_BOUND: Schema = {
    "description": "a number, a duration, a percentage, a parameter, or `parameter + amount`",
    "type": ["number", "string"],
}
_ONLY: Schema = {"description": "for this kind of fleet or this variant only", "type": "string"}


def scenario_schema() -> Schema:
    """JSON Schema of a scenario file, in draft 07, which YAML language servers support.

    The loader makes further checks.
    """
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:rlctl:scenario:1",
        "title": "rlctl failover-drill scenario",
        **_closed(_scenario_keys(), ("version", "name", *_TEXTS, "kinds", "steps", "expect")),
    }


def runs_schema() -> Schema:
    """JSON Schema of `failover-drill run -o json`. Later versions of rlctl may add keys, but keep these keys."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:rlctl:failover-drill-run:1",
        "title": "rlctl failover-drill run",
        **_open({"schema": {"const": "rlctl.failover-drill-run/1"}, "runs": _list(run_schema())}),
    }


def run_schema() -> Schema:
    return _open({**_run_head(), **_run_books(), **_run_parts(), **_run_about()})


def _scenario_keys() -> dict[str, Schema]:
    return {
        "version": {"const": 1},
        "name": _TEXT,
        **{key: {**_TEXT, "description": meaning} for key, meaning in _TEXTS.items()},
        "overall": {**_TEXT, "description": "what the variants show together"},
        "kinds": {**_list(_word(Kind)), "minItems": 1},
        "parameters": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
        "variants": _list(
            {
                "type": "object",
                "required": ["name"],
                "properties": {"name": _TEXT},
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            }
        ),
        "settings": {
            "description": "settings of the twin's topology, spelled section.key",
            "type": "object",
            "propertyNames": {"enum": [f"{one.key}.{field.key}" for one in SECTIONS for field in one.fields]},
        },
        "load": _closed(_load_keys()),
        "steps": {**_list(_step()), "minItems": 1},
        "expect": _list(_closed(_expectation_keys(), ("metric",)) | {"anyOf": [_has("least"), _has("most")]}),
        "budget": _closed({"run": _SPAN, "gap": _SPAN}),
    }


def _load_keys() -> dict[str, Schema]:
    return {
        "sides": {**_list(_word(Side)), "minItems": 1},
        "mode": _or_parameter(_word(LoadMode)),
        "connections": _or_parameter(_COUNT),
        "depth": _or_parameter(_COUNT),
        "rate": _or_parameter(_COUNT),
        "timeout": _SPAN,
        "wait": _or_parameter(_COUNT),
        "wait_timeout": _SPAN,
        "limit": _or_parameter(_COUNT),
        "policy": _TEXT,
        "skew": _SPAN,
        "preload": _or_parameter(_FLAG),
    }


def _step() -> Schema:
    awaited = {condition.value: _SPAN for condition in AwaitedCondition}
    verbs: dict[str, Schema] = {
        "hold": _SPAN,
        "await": {**_closed(awaited), "minProperties": 1, "maxProperties": 1},
        "burst": {"const": "hot"},
        "cut": _closed({"flow": _or_parameter(_word(Flow)), "nodes": _or_parameter(_word(LabRole))}, ("flow", "nodes")),
        "mend": {"const": "all"},
        **{verb: _or_parameter(_word(LabRole)) for verb in ("kill", "pause", "resume", "restart")},
        "failover": _or_parameter(_word(FailoverKind)),
        "load_scripts": {"const": "all"},
    }
    return {**_closed({**verbs, "only": _ONLY}), "anyOf": [_has(verb) for verb in verbs]}


def _expectation_keys() -> dict[str, Schema]:
    return {"metric": _word(Metric), "least": _BOUND, "most": _BOUND, "why": _TEXT, "only": _ONLY}


def _run_head() -> dict[str, Schema]:
    return {
        "id": _TEXT,
        "kind": _word(Kind),
        "scenario": _TEXT,
        "variant": _or_null(_TEXT),
        "title": _TEXT,
        "claim": _TEXT,
        "verdict": _word(DrillVerdict),
        "reasons": _list(_TEXT),
    }


def _run_books() -> dict[str, Schema]:
    by_ledger = ("survived", "lost", "survived_local", "lost_local", "recovered", "duplicated", "unexpected")
    return {
        "ops": _open({**dict.fromkeys(_CLASSES, _COUNT), "attempted": _or_null(_COUNT)}),
        "acked_local": _COUNT,
        **dict.fromkeys(by_ledger, _or_null(_COUNT)),
        "loss_bound": _or_null(_AMOUNT),
        "admission": _or_null(_admission()),
        "times_ms": _open({name: _or_null(_AMOUNT) for name in _TIMES}),
        "metrics": _open({metric.value: _or_null({"type": "number"}) for metric in Metric}),
    }


def _admission() -> Schema:
    counts = dict.fromkeys(("limit", "admitted", "over", "under", "potential"), _COUNT)
    return _open({**counts, "ratio": _AMOUNT, "by_cause": _open(dict.fromkeys(CAUSES, _COUNT))})


def _run_parts() -> dict[str, Schema]:
    texts, checked = _or_null(_list(_TEXT)), {"code": _TEXT, "text": _TEXT, "ok": _FLAG, "evidence": {"type": "string"}}
    seen = {name: _or_null({"type": "number"}) for name in ("least", "most", "seen")}
    doomed = {"client": _TEXT, "id": _COUNT, "node": _TEXT, "acked_ms": {"type": "number"}, "admitted": _FLAG}
    return {
        "clients": _list(_client()),
        "fault": _open({"method": {"type": "string"}, "verified": _or_null(_FLAG), "cut_ms": _or_null(_AMOUNT)}),
        "heal": _open({"ok": _FLAG, "residue": texts}),
        "expected": _list(_open({"metric": _word(Metric), **seen, "ok": _FLAG, "why": {"type": "string"}})),
        "invariants": _list(_open(checked)),
        "doomed": _open(
            {"count": _or_null(_COUNT), "head": _list(_open(doomed)), "copied_from_victim": _or_null(_COUNT)}
        ),
    }


def _client() -> Schema:
    measured = ("longest_gap_ms", "acked_per_s", "p50_ms", "p99_ms")
    return _open(
        {
            "name": _TEXT,
            "side": _word(Side),
            **{name: _or_null(_AMOUNT) for name in measured},
            "acked": _COUNT,
            **dict.fromkeys(("lost", "hops"), _or_null(_COUNT)),
            "refusals": {"type": "object", "additionalProperties": _COUNT},
        }
    )


def _run_about() -> dict[str, Schema]:
    return {
        "started": _TEXT,
        "live": _FLAG,
        "timers": {"enum": ["short", "stock"]},
        "periods": _or_null({"type": "object", "additionalProperties": _COUNT}),
        "why_no_sandbox": _or_null(_TEXT),
        "configuration": {"type": "object"},
        "failure": _or_null(_TEXT),
        "rerun": _TEXT,
        "folder": _TEXT,
        "report": _or_null(_TEXT),
    }


def _open(properties: Mapping[str, object]) -> Schema:
    """Schema of an object that has all of these keys, and may have others."""
    return {"type": "object", "required": list(properties), "properties": dict(properties)}


def _closed(properties: Mapping[str, object], required: Iterable[str] = ()) -> Schema:
    """Schema of a mapping that may have only these keys."""
    found: Schema = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return {**found, "required": list(required)} if required else found


def _has(key: str) -> Schema:
    return {"required": [key]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _word(members: type[StrEnum]) -> Schema:
    return {"enum": [member.value for member in members]}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _or_parameter(schema: Schema) -> Schema:
    return {"anyOf": [schema, _PARAMETER]}
