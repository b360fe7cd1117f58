"""Matches a request to the conditions and key templates of a rule. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence

DIMENSION = "[a-z][a-z0-9_]{0,31}"
PLACE = re.compile(r"\{([^{}]*)\}")
_PAIR = re.compile(f"({DIMENSION})=")
_ENCODED = re.compile(rb"%([0-9A-F]{2})")
TIER = "tier"
ANY = "*"


class Template:
    """A parsed key template such as `user:{user}:{endpoint}`."""

    __slots__ = ("_parts", "_tail", "names", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        *pairs, self._tail = PLACE.split(text)
        self._parts = tuple(zip(pairs[::2], pairs[1::2], strict=True))
        self.names = tuple(dict.fromkeys(name for _literal, name in self._parts))

    def fits(self, dimensions: Mapping[str, str]) -> bool:
        """Return whether the request has a non-empty value for each dimension of the template."""
        return all(dimensions.get(name) for name in self.names)

    def fill(self, dimensions: Mapping[str, str], encode: Callable[[str], str]) -> str:
        """Return the identity for the key; `encode` encodes each value."""
        return "".join([literal + encode(dimensions[name]) for literal, name in self._parts]) + self._tail

    def read(self, tag: str) -> dict[str, str] | None:
        """Parse an identity in a key into values; None if it does not match. A hashed value stays as it is."""
        pattern = "".join(f"{re.escape(literal)}(.+?)" for literal, _name in self._parts) + re.escape(self._tail)
        found = re.fullmatch(pattern, tag)
        if found is None:
            return None
        return dict(zip((name for _literal, name in self._parts), map(_decode, found.groups()), strict=True))

    def identity(self, dimensions: Mapping[str, str]) -> str:
        """Return the values without encoding, joined by colons; the canary bucket is computed from this text."""
        return ":".join([dimensions[name] for name in self.names])


def first_fit(templates: Sequence[Template], dimensions: Mapping[str, str]) -> Template | None:
    """Return the first template whose dimensions the request has; None if the rule does not concern the request."""
    return next((template for template in templates if template.fits(dimensions)), None)


def concerns(conditions: Mapping[str, Sequence[str]], dimensions: Mapping[str, str]) -> bool:
    """Return whether a request meets all conditions. A condition on a missing dimension is not met."""
    return all(
        any(_meets(pattern, dimensions.get(name, "")) for pattern in patterns) for name, patterns in conditions.items()
    )


def _decode(value: str) -> str:
    found = _ENCODED.sub(lambda match: bytes.fromhex(match[1].decode()), value.encode("utf-8", "surrogatepass"))
    return found.decode("utf-8", "replace")


def _meets(pattern: str, value: str) -> bool:
    if not value:
        return False
    return value.startswith(pattern[:-1]) if pattern.endswith(ANY) else value == pattern


def plain_dimension(templates: Sequence[Template]) -> str | None:
    """Return the dimension to use for a plain identity: the first template with only one dimension defines it."""
    return next((template.names[0] for template in templates if len(template.names) == 1), None)


def read_dimensions(templates: Sequence[Template], conditions: Mapping[str, object], text: str) -> dict[str, str]:
    """Parse an identity from a command line: a plain value, or `user=ada,endpoint=/x` with dimensions of the rule.

    Returns an empty dict for a plain value if no template of the rule has exactly one dimension.
    """
    known = {name for template in templates for name in template.names} | set(conditions)
    first = _PAIR.match(text)
    if first is None or first[1] not in known:
        plain = plain_dimension(templates)
        return {} if plain is None else {plain: text}
    starts = [found for found in _PAIR.finditer(text) if found[1] in known and _begins(text, found.start())]
    ends = [found.start() - 1 for found in starts[1:]] + [len(text)]
    return {found[1]: text[found.end() : end] for found, end in zip(starts, ends, strict=True)}


def _begins(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == ","
