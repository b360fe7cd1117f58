"""One row of the topology file's table, and one section of rows."""

from dataclasses import MISSING, dataclass, fields
from typing import Any

from rlctl.topology.model import Kind, TargetName
from rlctl.topology.values import ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key: the attribute it fills, its type, what the sample file says of it, and the one target it speaks of."""

    key: str
    type: ValueType[Any]
    doc: str
    attr: str = ""
    example: str = ""
    required: bool = False
    only: TargetName | None = None

    @property
    def attribute(self) -> str:
        """The attribute of the model; the key's own name unless the model adds a unit to it."""
        return self.attr or self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One mapping of keys and the part of the model it fills; `only` is the kind or target it speaks of."""

    key: str
    model: type[Any]
    doc: str
    fields: tuple[Field, ...]
    only: Kind | TargetName | None = None

    def default(self, field: Field) -> Any:  # noqa: ANN401 - a table row holds any type
        """What the model has when the file says nothing; None too where nothing is a choice."""
        found = next(own.default for own in fields(self.model) if own.name == field.attribute)
        return None if found is MISSING else found
