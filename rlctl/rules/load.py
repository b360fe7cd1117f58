"""Reads a rules file into definitions, or reports all its mistakes with their lines. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.reader import NodeReader
from rlctl.files.table import Field
from rlctl.files.values import text
from rlctl.files.yaml import Entry, Node, Sequence, compose
from rlctl.files.yaml import Mapping as Map
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.limits.failures import InvalidLimit
from rlctl.limits.match import DIMENSION
from rlctl.limits.rule import Canary, Definition, RuleClass, VariantName
from rlctl.rules.table import (
    ALGORITHM,
    CONDITION,
    FIELDS,
    ID,
    KEYS,
    OPTIONAL,
    PARAMETERS,
    PERCENT,
    TEMPLATE,
    VERSION,
    WANTED,
    parameter_keys,
)

HINT = "`rlctl schema rules` prints every key; README.md shows a file that works"
_NAME = text(DIMENSION, "lower-case letters, digits and underscores")
_TIER = text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", "letters, digits, dots, dashes and underscores")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesFile:
    """The definitions of a file, and the line on which each rule begins."""

    path: str
    definitions: tuple[Definition, ...]
    lines: Mapping[str, int]


def load_rules(source: bytes, path: str) -> RulesFile:
    """Read and check a rules file; InvalidFile lists all mistakes as `path:line: ...`."""
    mistakes = Mistakes(path, hint=HINT)
    root = compose(source, mistakes)
    reader = NodeReader(mistakes)
    entries = reader.keys(root, ("version", "rules"), ("version", "rules"))
    if "version" in entries and reader.value(entries["version"].value, "version", VERSION) is None:
        # A file in another format has other keys, so reports of further mistakes would be misleading.
        mistakes.raise_any()
    nodes = reader.items(entries["rules"].value, "rules") if "rules" in entries else ()
    if "rules" in entries and entries["rules"].value == Sequence(line=entries["rules"].value.line, items=()):
        mistakes.add(entries["rules"].line, "rules: add at least one rule; an empty list would limit nothing")
    lines: dict[str, int] = {}
    found = [definition for node in nodes if (definition := _RuleReader(reader).rule(node, lines)) is not None]
    mistakes.raise_any()
    return RulesFile(path=path, definitions=tuple(found), lines=lines)


class _RuleReader:
    """Reads one rule and collects its mistakes."""

    def __init__(self, reader: NodeReader) -> None:
        self._reader = reader
        self._mistakes = reader.mistakes

    def rule(self, node: Node, lines: dict[str, int]) -> Definition | None:
        entries = self._reader.keys(self._reader.mapping(node, "a rule"), KEYS, ("id", "algorithm", "key"))
        rule_id = self._one(entries, ID)
        if rule_id is not None and rule_id in lines:
            self._mistakes.add(
                entries["id"].line, f"rule {shown(rule_id)} is given twice, first on line {lines[rule_id]}; keep one"
            )
        lines.setdefault(rule_id or "", node.line)
        algorithm = self._one(entries, ALGORITHM)
        keys = self._keys(entries)
        settings = {field.attribute: self._one(entries, field) for field in FIELDS.values() if field.key in entries}
        conditions = self._conditions(entries)
        if algorithm is None:
            return None
        parameters = self._parameters(algorithm.value, entries, node.line, "")
        canary = self._canary(algorithm.value, entries)
        tiers = self._tiers(algorithm.value, entries)
        self._check_class(entries, settings)
        self._refuse_strange_parameters(algorithm.value, entries)
        if rule_id is None or parameters is None:
            return None
        definition = Definition(
            id=rule_id,
            algorithm=algorithm.value,
            parameters=parameters,
            keys=keys,
            tiers=tiers,
            match=conditions,
            canary=canary,
            **_with_default_failure(settings),
        )
        self._check_numbers(definition, node.line, entries)
        return definition

    def _one(self, entries: Mapping[str, Entry], field: Field) -> Any:  # noqa: ANN401  a table row holds any type
        entry = entries.get(field.key)
        return None if entry is None else self._reader.value(entry.value, field.key, field.type)

    def _keys(self, entries: Mapping[str, Entry]) -> tuple[str, ...]:
        entry = entries.get(TEMPLATE.key)
        if entry is None:
            return ()
        nodes = entry.value.items if isinstance(entry.value, Sequence) else (entry.value,)
        if not nodes:
            self._mistakes.add(entry.line, "key: add at least one template")
        found = [self._reader.value(node, TEMPLATE.key, TEMPLATE.type) for node in nodes]
        templates = tuple(one for one in found if one is not None)
        if len(set(templates)) < len(templates):
            self._mistakes.add(entry.line, "key: the same template is listed twice; keep one")
        return templates

    def _conditions(self, entries: Mapping[str, Entry]) -> dict[str, tuple[str, ...]]:
        found = {}
        for name, entry in self._named(entries, "match", _NAME).items():
            nodes = entry.value.items if isinstance(entry.value, Sequence) else (entry.value,)
            values = [self._reader.value(node, f"match.{name}", CONDITION) for node in nodes]
            if not values:
                self._mistakes.add(entry.line, f"match.{name}: add at least one value")
            found[name] = tuple(value for value in values if value is not None)
        return found

    def _tiers(self, algorithm: str, entries: Mapping[str, Entry]) -> dict[str, dict[str, int]]:
        found = {}
        for tier, entry in self._named(entries, "tiers", _TIER).items():
            mapping = self._reader.mapping(entry.value, f"tiers.{tier}")
            values = self._reader.keys(mapping, parameter_keys(algorithm))
            found[tier] = self._override(algorithm, values, entry.line, f"tiers.{tier}")
        return found

    def _canary(self, algorithm: str, entries: Mapping[str, Entry]) -> Canary | None:
        entry = entries.get("canary")
        if entry is None:
            return None
        mapping = self._reader.mapping(entry.value, "canary")
        values = self._reader.keys(mapping, (PERCENT.key, *parameter_keys(algorithm)), (PERCENT.key,))
        share = self._one(values, PERCENT)
        rest = {key: value for key, value in values.items() if key != PERCENT.key}
        return Canary(share=share or 0, parameters=self._override(algorithm, rest, entry.line, "canary"))

    def _named(self, entries: Mapping[str, Entry], key: str, name: Any) -> dict[str, Entry]:  # noqa: ANN401
        """The entries of a mapping whose keys are names that the user chose."""
        entry = entries.get(key)
        if entry is None:
            return {}
        mapping: Map = self._reader.mapping(entry.value, key)
        for word, own in mapping.entries.items():
            if wrong := name.refuse(word):
                self._mistakes.add(own.line, f"{key}: {wrong}")
        return mapping.entries

    def _override(self, algorithm: str, entries: Mapping[str, Entry], line: int, where: str) -> dict[str, int]:
        values = self._given(algorithm, entries, f"{where}.")
        if not entries:
            words = ", ".join(parameter_keys(algorithm))
            self._mistakes.add(line, f"{where}: overrides nothing; add one of {words}")
        return values

    def _parameters(self, algorithm: str, entries: Mapping[str, Entry], line: int, where: str) -> dict[str, int] | None:
        values = self._given(algorithm, entries, where)
        missing = [name for name in WANTED[algorithm] if name not in values and name not in OPTIONAL]
        known = {key for name in missing for key in WANTED[algorithm][name] if key in entries}
        if "period_ms" in missing and "rate" in values:
            self._mistakes.add(entries["rate"].line, "rate: the time is missing; write 100/60s, or add `period`")
        elif missing and not known:
            words = [" or ".join(f"`{key}`" for key in WANTED[algorithm][name]) for name in missing]
            self._mistakes.add(line, f"{algorithm} needs {', '.join(dict.fromkeys(words))}")
        return None if missing else values

    def _given(self, algorithm: str, entries: Mapping[str, Entry], where: str) -> dict[str, int]:
        """The parameters in a mapping, by their names in the script."""
        found: dict[str, int] = {}
        origin: dict[str, str] = {}
        for key in parameter_keys(algorithm):
            if key not in entries:
                continue
            value = self._reader.value(entries[key].value, f"{where}{key}", PARAMETERS[key].type)
            for name, number in numbers(algorithm, key, value).items():
                if name in found:
                    self._mistakes.add(entries[key].line, f"{where}{key}: already set by `{origin[name]}`; keep one")
                found[name], origin[name] = number, key
        return found

    def _refuse_strange_parameters(self, algorithm: str, entries: Mapping[str, Entry]) -> None:
        own = parameter_keys(algorithm)
        for key in PARAMETERS:
            if key in entries and key not in own:
                self._mistakes.add(entries[key].line, f"{algorithm} has no `{key}`; use {', '.join(own)}")

    def _check_class(self, entries: Mapping[str, Entry], settings: Mapping[str, object]) -> None:
        if settings.get("rule_class") is RuleClass.SECURITY and settings.get("on_failure") == "open":
            line = entries["on_failure"].line
            self._mistakes.add(line, "on_failure: a rule of class security must not fail open; write closed or local")

    def _check_numbers(self, definition: Definition, line: int, entries: Mapping[str, Entry]) -> None:
        """Report values that a script would refuse, with their lines and the keys of the file."""
        wrong: dict[VariantName, str] = {}
        for tier, in_canary in definition.variants():
            try:
                ALGORITHMS[definition.algorithm](**definition.effective(tier, in_canary=in_canary))
            except InvalidLimit as failure:
                above = {(None, False), (tier, False), (None, in_canary)} - {(tier, in_canary)}
                # A mistake of the rule itself is not reported again for its tiers and canary.
                if failure.message not in {wrong.get(name) for name in above}:
                    at, where = _variant_place((tier, in_canary), line, entries)
                    self._mistakes.add(at, where + _in_own_names(definition.algorithm, failure.message, entries))
                wrong[tier, in_canary] = failure.message


def _variant_place(variant: VariantName, line: int, entries: Mapping[str, Entry]) -> tuple[int, str]:
    """The line of a variant, and the prefix that names it in a message."""
    tier, in_canary = variant
    if tier is not None:
        tiers = entries["tiers"].value
        at = tiers.entries[tier].line if isinstance(tiers, Map) else line
        return at, f"tiers.{tier}{' in the canary' if in_canary else ''}: "
    return (entries["canary"].line, "canary: ") if in_canary else (line, "")


def _in_own_names(algorithm: str, message: str, entries: Mapping[str, Entry]) -> str:
    """The message with the script's parameter names replaced by the keys of the file."""
    for name, keys in WANTED[algorithm].items():
        message = re.sub(rf"\b{name}\b", next((key for key in keys if key in entries), keys[0]), message)
    return message


def numbers(algorithm: str, key: str, value: Any) -> dict[str, int]:  # noqa: ANN401  as the table's rows
    """The script's parameters that one key of the file sets."""
    if value is None:
        return {}
    if key == "rate":
        return {"rate": value.amount} | ({} if value.period_ms is None else {"period_ms": value.period_ms})
    name = next(name for name, keys in WANTED[algorithm].items() if key in keys)
    return {name: value}


def _with_default_failure(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the default of `on_failure`: closed for class security, otherwise open."""
    given = {name: value for name, value in settings.items() if value is not None}
    closed = given.get("rule_class") is RuleClass.SECURITY
    return {"on_failure": "closed" if closed else "open", **given}
