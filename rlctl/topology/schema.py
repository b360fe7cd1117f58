"""The topology file as a JSON Schema, for editors; generated from the table of settings."""

from rlctl.files.table import Field, SettingsSection
from rlctl.topology.directives import NAME_PATTERN, OWNED, OWNED_PREFIXES
from rlctl.topology.table import HOSTS, REDIS_DOC, SECTIONS, TOP


def json_schema() -> dict[str, object]:
    """The schema in draft 07, which YAML editors support best. `check` refuses more than a schema can express."""
    sections = {section.key: _section(section) for section in SECTIONS}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:rlctl:topology:1",
        "title": "rlctl topology",
        "description": TOP.doc,
        "type": "object",
        "additionalProperties": False,
        "required": _required(TOP),
        "properties": {**_properties(TOP), **sections, "redis": _redis(), "hosts": _hosts()},
        "if": {"properties": {"target": {"const": "hosts"}}},
        "then": {"required": ["hosts"], "properties": {"hosts": {"type": "array", "minItems": 1}}},
    }


def _section(section: SettingsSection) -> dict[str, object]:
    return {
        "description": section.doc,
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": _properties(section),
    }


def _properties(section: SettingsSection) -> dict[str, object]:
    return {field.key: _field(section, field) for field in section.fields}


def _field(section: SettingsSection, field: Field) -> dict[str, object]:
    described: dict[str, object] = {"description": field.doc, **field.type.schema}
    default = section.default(field)
    if default is not None and not field.required:
        described["default"] = field.type.show(default)
    return described


def _required(section: SettingsSection) -> list[str]:
    return [field.key for field in section.fields if field.required]


def _redis() -> dict[str, object]:
    owned = [{"enum": list(OWNED)}, {"pattern": f"^({'|'.join(OWNED_PREFIXES)})"}]
    return {
        "description": REDIS_DOC,
        "type": ["object", "null"],
        "propertyNames": {"pattern": f"^{NAME_PATTERN}$", "not": {"anyOf": owned}},
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    }


def _hosts() -> dict[str, object]:
    entry = {
        "type": "object",
        "additionalProperties": False,
        "required": _required(HOSTS),
        "properties": _properties(HOSTS),
    }
    return {"description": HOSTS.doc, "type": ["array", "null"], "items": entry}
