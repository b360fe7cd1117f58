"""The key of a limiter: rl:[service:]{identity}:rule:algorithm:state[:window]. Pure."""

import hashlib
import re
from collections.abc import Mapping

from rlctl.limits.algorithms import Algorithm
from rlctl.limits.failures import InvalidLimit
from rlctl.services import key_head

_LONGEST = 128
# Characters that are encoded. Braces would change the hash tag; colons and percent signs could give two identities the
# same key.
_UNSAFE = re.compile("[%{}:\x00-\x1f\x7f-\x9f]")
# Percent-encoding puts two hexadecimal digits after each percent sign, so an encoded value never begins with `%~`.
_HASHED = "%~"
_PLACE = re.compile(r"\{([^{}]*)\}")


class Filled(str):
    """An identity that `fill` made from a key template; it is already encoded."""

    __slots__ = ()


def encode(value: str) -> str:
    """Percent-encode a value for a key; a result longer than 128 bytes becomes `%~` and the SHA1 of the value."""
    if not value:
        raise InvalidLimit("an identity must not be empty")
    safe = _UNSAFE.sub(_percent, value)
    if len(safe) * 4 > _LONGEST and len(_utf8(safe)) > _LONGEST:
        return _HASHED + hashlib.sha1(_utf8(value), usedforsecurity=False).hexdigest()
    return safe


def fill(template: str, values: Mapping[str, str]) -> Filled:
    """Fill a key template such as `user:{user}`; InvalidLimit if a value is missing or the template is malformed."""
    places = _PLACE.findall(template)
    missing = [place for place in places if place not in values]
    rest = _PLACE.sub("", template)
    if not places or missing or "{" in rest or "}" in rest:
        reason = (
            f"no value for {', '.join(missing)}" if missing else "a template needs a name between each pair of braces"
        )
        raise InvalidLimit(f"key template {template!r}: {reason}")
    return Filled(_PLACE.sub(lambda place: encode(values[place[1]]), template))


def tag_of(identity: str) -> bytes:
    """Return the hash tag of an identity, which determines the slot. Encodes the identity unless it is `Filled`."""
    return _utf8(identity if type(identity) is Filled else encode(identity))


def key_end(algorithm: Algorithm, rule_id: str, state: int) -> bytes:
    """Return the part of the key after the identity."""
    end = f"}}:{encode(rule_id)}:{algorithm.name}:{state}"
    window_ms = algorithm.key_window_ms
    return _utf8(end if window_ms is None else f"{end}:{window_ms}")


def key(identity: str, *, rule_id: str, algorithm: Algorithm, state: int, service: str | None = None) -> str:
    """Return the key of an identity; `state` is the number of the script's state format in the manifest."""
    return (_utf8(key_head(service)) + tag_of(identity) + key_end(algorithm, rule_id, state)).decode(
        "utf-8", "surrogatepass"
    )


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def _utf8(text: str) -> bytes:
    # Text from an HTTP server may contain lone surrogates. They must not prevent a decision.
    return text.encode("utf-8", "surrogatepass")
