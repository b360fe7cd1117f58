"""Escapes control characters in texts of servers, keys and identities before they reach a terminal."""

import re

# Escaped are the controls C0, DEL and C1; Unicode that reorders text or breaks lines; and lone surrogates, which no
# stream can encode.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile("[\t\n]")


def visible(text: str) -> str:
    """Escape control characters, but keep line breaks and tabs."""
    return _CONTROLS.sub(_escaped, text)


def visible_cell(text: str) -> str:
    """Escape control characters, line breaks and tabs, for a cell of a table."""
    return _BREAKS.sub(_escaped, visible(text))


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
