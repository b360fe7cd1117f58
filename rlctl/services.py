"""Services that decide on keys of their own: what they, their users and their keys are called. Pure."""

import re

NAME = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"
NAME_RULE = "a lower-case letter, then up to 39 letters, digits or dashes, the last one no dash"
_ROOT = "rl:"
# Identities stand in braces and service names hold none, so no key reads both ways.
_HEAD = re.compile(rf"{_ROOT}(?:(?P<service>{NAME}):)?\{{")


def user_of(service: str) -> str:
    """The Redis user of a service."""
    return f"limiter-{service}"


def key_prefix(service: str | None) -> str:
    """What the keys of a service begin with; None: all keys of all limiters."""
    return _ROOT if service is None else f"{_ROOT}{service}:"


def key_head(service: str | None) -> str:
    """A key up to the identity, with the brace that opens its hash tag."""
    return key_prefix(service) + "{"


def split_key(key: str) -> tuple[str | None, str] | None:
    """The service of a limiter's key, and what follows the opening brace; None for any other key."""
    head = _HEAD.match(key)
    return None if head is None else (head["service"], key[head.end() :])


def is_service(text: str) -> bool:
    """Whether this can be the name of a service."""
    return re.fullmatch(NAME, text) is not None
