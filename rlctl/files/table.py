"""The table that describes the settings of a file."""

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any

from rlctl.files.values import ValueType


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key of a file.

    `doc` is its comment in the sample file. `only` is the one kind or target that uses the key.
    """

    key: str
    type: ValueType[Any]
    doc: str
    attr: str = ""
    example: str = ""
    required: bool = False
    only: StrEnum | None = None

    @property
    def attribute(self) -> str:
        """Name of the model's attribute: the key, unless the model adds a unit to it."""
        return self.attr or self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsSection:
    """A mapping of keys and the model class that it fills. `only` is the one kind or target that uses it."""

    key: str
    model: type[Any]
    doc: str
    fields: tuple[Field, ...]
    only: StrEnum | None = None

    def default(self, field: Field) -> Any:  # noqa: ANN401 - a table row holds any type
        """The model's default for a field; None if it has no default."""
        found = next(own.default for own in fields(self.model) if own.name == field.attribute)
        return None if found is MISSING else found
