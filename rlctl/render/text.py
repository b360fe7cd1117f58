"""Redis configuration syntax: one directive a line, values quoted where they must be."""

from collections.abc import Iterable

Directive = tuple[str, str]


def quote(value: str) -> str:
    """A single argument of a configuration line."""
    if value and all(character.isalnum() or character in "_-./:@%+,#" for character in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def conf_text(directives: Iterable[Directive]) -> str:
    """The file's text; values are already in configuration syntax."""
    return "".join(f"{name} {value}\n" for name, value in directives)
