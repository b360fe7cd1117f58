"""The difference of two rule sets, field by field. Pure."""

from dataclasses import dataclass
from typing import Literal

from rlctl.limits.rule import Rule, RuleSet

Kind = Literal["add", "change", "remove", "reorder"]
# Fields that rlctl computes from the other fields.
_DERIVED = {"variants"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """The change of one field, such as `tiers.free.limit`; None means that the field is not set."""

    field: str
    before: object
    after: object

    def to_json(self) -> dict[str, object]:
        return {"field": self.field, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """The change of one rule."""

    rule: str
    kind: Kind
    fields: tuple[FieldChange, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {"rule": self.rule, "change": self.kind, "fields": [field.to_json() for field in self.fields]}

    def describe(self) -> str:
        """One line, such as `change api: limit 1000 -> 800`."""
        fields = "; ".join(f"{one.field} {_shown(one.before)} -> {_shown(one.after)}" for one in self.fields)
        return f"{self.kind} {self.rule}" + (f": {fields}" if fields else "")


def changes(before: RuleSet | None, after: RuleSet) -> tuple[RuleChange, ...]:
    """The changed rules in the new order, then removed rules. All rules get `reorder` if only the order differs."""
    old = {rule.id: rule for rule in (before.rules if before else ())}
    new = {rule.id: rule for rule in after.rules}
    found = [change for rule in after.rules if (change := _change(old.get(rule.id), rule)) is not None]
    found += [RuleChange(rule=name, kind="remove") for name in old if name not in new]
    if not found and before is not None and list(old) != list(new):
        found = [RuleChange(rule=name, kind="reorder") for name in new]
    return tuple(found)


def _change(before: Rule | None, after: Rule) -> RuleChange | None:
    if before is None:
        return RuleChange(rule=after.id, kind="add")
    old, new = _flat(before), _flat(after)
    fields = tuple(
        FieldChange(field=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )
    return RuleChange(rule=after.id, kind="change", fields=fields) if fields else None


def _flat(rule: Rule) -> dict[str, object]:
    """The fields of a rule by their path, such as `tiers.free.limit`."""
    found: dict[str, object] = {}
    for name, value in rule.to_json().items():
        if name not in _DERIVED:
            _flatten(name, value, found)
    return found


def _flatten(name: str, value: object, found: dict[str, object]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(f"{name}.{key}", item, found)
    else:
        found[name] = value


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
