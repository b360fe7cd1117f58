"""Text of servers, keys and identities as it may reach a terminal: what would control it is escaped."""

import re

# C0, DEL and C1, what reorders or breaks lines in Unicode, and lone surrogates, which no stream can encode.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile("[\t\n]")


def visible(text: str) -> str:
    """Lines of text; line breaks and tabs stay."""
    return _CONTROLS.sub(_escaped, text)


def visible_cell(text: str) -> str:
    """Text in one cell of a table: a line break would look like another row."""
    return _BREAKS.sub(_escaped, visible(text))


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
