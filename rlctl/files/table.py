"""One row of a file's table, and one section of rows."""

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any

from rlctl.files.values import ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key: the attribute it fills, its type, what the sample file says of it, and the one choice it speaks of."""

    key: str
    type: ValueType[Any]
    doc: str
    attr: str = ""
    example: str = ""
    required: bool = False
    only: StrEnum | None = None

    @property
    def attribute(self) -> str:
        """The attribute of the model; the key's own name unless the model adds a unit to it."""
        return self.attr or self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One mapping of keys and the part of the model it fills; `only` is the choice it speaks of."""

    key: str
    model: type[Any]
    doc: str
    fields: tuple[Field, ...]
    only: StrEnum | None = None

    def default(self, field: Field) -> Any:  # noqa: ANN401 - a table row holds any type
        """What the model has when the file says nothing; None too where nothing is a choice."""
        found = next(own.default for own in fields(self.model) if own.name == field.attribute)
        return None if found is MISSING else found
