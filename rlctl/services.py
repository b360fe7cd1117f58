"""Names of services, of their Redis users and of their keys. Pure."""

import re

NAME = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"
NAME_RULE = "a lower-case letter, then up to 39 lower-case letters, digits or dashes, with no dash at the end"
_ROOT = "rl:"
# The identity of a key is in braces, and service names contain no braces, so every key has only one parse.
_HEAD = re.compile(rf"{_ROOT}(?:(?P<service>{NAME}):)?\{{")


def user_of(service: str) -> str:
    """Name of the Redis user of a service."""
    return f"limiter-{service}"


def key_prefix(service: str | None) -> str:
    """Prefix of the keys of a service; with None, the prefix of all limiter keys."""
    return _ROOT if service is None else f"{_ROOT}{service}:"


def key_head(service: str | None) -> str:
    """The part of a key before the identity, including the brace that opens the hash tag."""
    return key_prefix(service) + "{"


def split_key(key: str) -> tuple[str | None, str] | None:
    """The service of a limiter key and the text after its opening brace; None if `key` is not a limiter key."""
    head = _HEAD.match(key)
    return None if head is None else (head["service"], key[head.end() :])


def is_service(text: str) -> bool:
    """Whether the text is a valid service name."""
    return re.fullmatch(NAME, text) is not None
