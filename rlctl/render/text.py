"""The syntax of Redis configuration files: one directive on each line, values quoted if needed."""

from collections.abc import Iterable

Directive = tuple[str, str]


def quote(value: str) -> str:
    """The value as one argument of a configuration line, in quotes if needed."""
    if value and all(character.isalnum() or character in "_-./:@%+,#" for character in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def conf_text(directives: Iterable[Directive]) -> str:
    """The text of a configuration file. Values must be quoted already."""
    return "".join(f"{name} {value}\n" for name, value in directives)
