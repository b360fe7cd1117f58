"""Reads the values of a scenario file, and replaces names of parameters by their values. Pure."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeVar

from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.reader import NodeReader
from rlctl.files.units import parse_duration
from rlctl.files.yaml import Node, Scalar

E = TypeVar("E", bound=StrEnum)

_SUM = re.compile(r"([a-z][a-z_]*)\s*([+-])\s*(\S+)")
_WHOLE = re.compile(r"[0-9]{1,10}")
_MOST = 1_000_000_000
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")


class Reader(NodeReader):
    """Reads the values of one file. For a wrong value, it records a mistake with the line and returns a default."""

    def __init__(self, mistakes: Mistakes, parameters: Mapping[str, str]) -> None:
        super().__init__(mistakes)
        self._parameters = parameters

    def text(self, node: Node) -> str:
        """A text with line breaks replaced by spaces."""
        if isinstance(node, Scalar) and not node.is_null:
            return " ".join(node.text.split())
        self.mistakes.add(node.line, "expected a text")
        return ""

    def given(self, node: Node) -> str:
        """A text; if the text is the name of a parameter, the parameter's value."""
        text = self.text(node)
        return self._parameters.get(text, text)

    def word(self, node: Node, members: type[E]) -> E:
        """A member of the enum `members`. For any other text, records a mistake and returns the first member."""
        text = self.given(node)
        try:
            return members(text)
        except ValueError:
            self.mistakes.add(node.line, f"{shown(text)} is not one of {', '.join(members)}")
            return next(iter(members))

    def whole(self, node: Node, least: int = 0, most: int = _MOST) -> int:
        text = self.given(node)
        if _WHOLE.fullmatch(text) and least <= int(text) <= most:
            return int(text)
        self.mistakes.add(node.line, f"{shown(text)} is not a whole number from {least} to {most}")
        return least

    def yes_or_no(self, node: Node) -> bool:
        text = self.given(node)
        if text not in {"true", "false"}:
            self.mistakes.add(node.line, f"{shown(text)} is neither true nor false")
        return text == "true"

    def signed_ms(self, node: Node) -> int:
        text = self.given(node)
        try:
            return -parse_duration(text[1:]) if text.startswith("-") else parse_duration(text)
        except ValueError as failure:
            self.mistakes.add(node.line, str(failure))
            return 0

    def ms(self, node: Node) -> int:
        """Read a duration, a parameter, or a parameter plus or minus a duration, in ms; 0 needs no unit."""
        return int(self._read_amount(node, lambda value: 0.0 if value == "0" else float(parse_duration(value))))

    def bound(self, node: Node) -> float:
        """Read a number, a duration (in ms), a percentage, a parameter, or a parameter plus or minus one of these."""
        return self._read_amount(node, _number)

    def _read_amount(self, node: Node, read: Callable[[str], float]) -> float:
        try:
            return self._amount(self.text(node), read)
        except ValueError as failure:
            self.mistakes.add(node.line, str(failure))
            return 0.0

    def _amount(self, text: str, read: Callable[[str], float]) -> float:
        if sum_of := _SUM.fullmatch(text):
            base, more = self._amount(sum_of[1], read), self._amount(sum_of[3], read)
            return base + more if sum_of[2] == "+" else max(0.0, base - more)
        return read(self._parameters.get(text, text))


def _number(value: str) -> float:
    if _NUMBER.fullmatch(value):
        return float(value)
    if percent := _PERCENT.fullmatch(value):
        return float(percent[1])
    return float(parse_duration(value))
