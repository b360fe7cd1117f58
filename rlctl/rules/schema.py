"""The JSON Schema of the rules file for editors, generated from the table of keys. Pure."""

from rlctl.files.table import Field
from rlctl.limits.match import DIMENSION
from rlctl.rules.table import ALGORITHM, CONDITION, FIELDS, ID, PARAMETERS, PERCENT, TEMPLATE

Schema = dict[str, object]


def rules_schema() -> Schema:
    """The JSON Schema in draft 07, for YAML language servers. `load_rules` checks more than a schema can express."""
    parameters = {key: _field(field) for key, field in PARAMETERS.items()}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:rlctl:rules:1",
        "title": "rlctl rules",
        "description": "Rate limits of a fleet, which `rlctl rules apply` compiles and stores",
        **_closed(
            {"version": {"const": 1}, "rules": {"type": "array", "items": _rule(parameters)}}, ("version", "rules")
        ),
    }


def _rule(parameters: dict[str, Schema]) -> Schema:
    overrides: Schema = {**_closed(parameters), "minProperties": 1}
    value: Schema = dict(CONDITION.schema)
    properties: dict[str, Schema] = {
        ID.key: _field(ID),
        ALGORITHM.key: _field(ALGORITHM),
        **parameters,
        TEMPLATE.key: {
            "description": f"{TEMPLATE.doc}; of a list, the first template whose dimensions are all present applies",
            **_one_or_many(dict(TEMPLATE.type.schema)),
        },
        "tiers": {
            "description": "tiers, and the parameters that each overrides",
            "type": "object",
            "additionalProperties": overrides,
        },
        "match": {
            "description": "dimensions and the values they must have; a trailing `*` matches any rest",
            "type": "object",
            "propertyNames": {"pattern": f"^{DIMENSION}$"},
            "additionalProperties": _one_or_many(value),
        },
        "canary": {
            "description": "parameters for a share of the identities",
            **_closed({PERCENT.key: _field(PERCENT), **parameters}, (PERCENT.key,)),
        },
        **{key: _field(field) for key, field in FIELDS.items()},
    }
    return _closed(properties, (ID.key, ALGORITHM.key, TEMPLATE.key))


def _field(field: Field) -> Schema:
    return {"description": field.doc, **field.type.schema}


def _closed(properties: dict[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    found: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return found | ({"required": list(required)} if required else {})


def _one_or_many(value: Schema) -> Schema:
    return {"anyOf": [value, {"type": "array", "minItems": 1, "items": value}]}
