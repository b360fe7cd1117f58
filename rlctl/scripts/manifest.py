"""Parses manifest.yaml: the scripts of each release, pinned by SHA1. Pure: the caller reads the files."""

import hashlib
import re
from collections.abc import Callable

from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.yaml import Mapping, Node, Scalar, Sequence, compose
from rlctl.limits.release import REPLY, Argument, Example, Manifest, Script
from rlctl.scripts.rights import GRANTABLE

FORMAT = "1"
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_FILE = re.compile(r"[A-Za-z0-9_.-]+\.lua")
_SHA1 = re.compile(r"[0-9a-f]{40}")
_STATE = re.compile(r"[1-9][0-9]{0,3}")
_BOOLEAN = re.compile(r"true|false")
_INTEGER = re.compile(r"-?[0-9]+")
_MOST_DIGITS = 30
_TOP_KEYS = ("version", "releases", "scripts")
_RELEASE_KEYS = ("version", "scripts")
_SCRIPT_KEYS = ("name", "version", "file", "sha1", "args", "state", "bounded", "commands", "examples")
_EXAMPLE_KEYS = ("args", "reply")


_Scripts = dict[tuple[str, str], Script]
# A release: its version, the pinned version of each script, and its line in the manifest.
_Release = tuple[str, dict[str, str], int]


def read_manifest(text: bytes, path: str, folder: str, read_file: Callable[[str], bytes]) -> Manifest:
    """Parse a manifest and verify the SHA1 of each script; InvalidFile lists each mistake with its line."""
    mistakes = Mistakes(path, hint="the manifest and the scripts are released together; see lua/README.md")
    top = compose(text, mistakes)
    mistakes.raise_any()
    reader = _Reader(mistakes, read_file)
    if reader.word(top, "version", re.compile(FORMAT)) != FORMAT:
        mistakes.stop(top.line, f"version is {FORMAT}")
    reader.known(top, _TOP_KEYS)
    scripts = reader.scripts(top)
    releases = reader.releases(top)
    _check_pins(scripts, releases, mistakes)
    mistakes.raise_any()
    return Manifest(
        path=path,
        folder=folder,
        digest=hashlib.sha256(text).hexdigest(),
        scripts=tuple(scripts.values()),
        releases={version: pins for version, pins, _line in releases},
    )


def _check_pins(scripts: _Scripts, releases: list[_Release], mistakes: Mistakes) -> None:
    for version, pins, line in releases:
        for name, pin in pins.items():
            if (name, pin) not in scripts:
                mistakes.add(line, f"release {version} pins {name} {pin}, which is not in the manifest")


class _Reader:
    """Reads the parsed YAML of a manifest; records mistakes with their lines."""

    def __init__(self, mistakes: Mistakes, read_file: Callable[[str], bytes]) -> None:
        self._mistakes = mistakes
        self._read_file = read_file

    def known(self, entry: Mapping, keys: tuple[str, ...]) -> None:
        """Record unknown keys as mistakes."""
        for key, value in entry.entries.items():
            if key not in keys:
                self._mistakes.add(value.line, f"unknown key {shown(key)}")

    def scripts(self, top: Mapping) -> _Scripts:
        found: _Scripts = {}
        for node in self.items(top, "scripts"):
            script = self._script(node)
            if (script.name, script.version) in found:
                self._mistakes.add(node.line, f"{script.name} {script.version} is given twice")
            found[script.name, script.version] = script
        return found

    def releases(self, top: Mapping) -> list[_Release]:
        """Parse all releases; the newest is last."""
        found: list[_Release] = []
        for node in self.items(top, "releases"):
            release = self._release(node)
            if any(release[0] == other[0] for other in found):
                self._mistakes.add(node.line, f"release {release[0]} is given twice")
            found.append(release)
        return found

    def _script(self, node: Node) -> Script:
        entry = self._mapping(node)
        self.known(entry, _SCRIPT_KEYS)
        name, version = self.word(entry, "name", _NAME), self.word(entry, "version", _VERSION)
        file, sha1 = self.word(entry, "file", _FILE), self.word(entry, "sha1", _SHA1)
        source = self._source(entry, f"{name} {version}", file, sha1)
        args = tuple(self._text(item) for item in self.items(entry, "args"))
        return Script(
            name=name,
            version=version,
            file=file,
            sha1=sha1,
            source=source,
            args=args,
            state=int(self.word(entry, "state", _STATE)),
            bounded="bounded" not in entry.entries or self.word(entry, "bounded", _BOOLEAN) == "true",
            commands=tuple(self._command(item) for item in self.items(entry, "commands")),
            examples=tuple(self._example(item, args) for item in self.items(entry, "examples")),
        )

    def _release(self, node: Node) -> _Release:
        entry = self._mapping(node)
        self.known(entry, _RELEASE_KEYS)
        pins = entry.entries.get("scripts")
        pinned = self._mapping(pins.value) if pins else Mapping(line=entry.line, entries={})
        if not pinned.entries:
            self._mistakes.stop(pinned.line, "`scripts` must pin at least one script")
        return (
            self.word(entry, "version", _VERSION),
            {name: self._text(pin.value) for name, pin in pinned.entries.items()},
            entry.line,
        )

    def items(self, entry: Mapping, key: str) -> tuple[Node, ...]:
        """Return the items of a required list, which must not be empty."""
        found = entry.entries.get(key)
        if found is None or not isinstance(found.value, Sequence) or not found.value.items:
            return self._mistakes.stop(found.line if found else entry.line, f"`{key}` must be a non-empty list")
        return found.value.items

    def word(self, entry: Mapping, key: str, shape: re.Pattern[str]) -> str:
        """Return the text of a required key, which must match the pattern `shape`."""
        found = entry.entries.get(key)
        text = found.value.text if found is not None and isinstance(found.value, Scalar) else ""
        if not shape.fullmatch(text):
            self._mistakes.stop(found.line if found else entry.line, f"`{key}` is missing or malformed")
        return text

    def _source(self, entry: Mapping, script: str, file: str, sha1: str) -> bytes:
        line = entry.entries["file"].line
        try:
            source = self._read_file(file)
        except OSError as failure:
            return self._mistakes.stop(line, f"{script}: cannot read {file}: {failure.strerror}")
        found = hashlib.sha1(source, usedforsecurity=False).hexdigest()
        if found != sha1:
            self._mistakes.stop(
                line, f"{script}: {file} was edited: its sha1 is {found}, not {sha1}; give it a new version"
            )
        return source

    def _example(self, node: Node, names: tuple[str, ...]) -> Example:
        entry = self._mapping(node)
        self.known(entry, _EXAMPLE_KEYS)
        args = tuple(self._argument(item) for item in self.items(entry, "args"))
        if len(args) > len(names):
            self._mistakes.stop(entry.line, "more arguments than `args` lists")
        reply = tuple(self._argument(item) for item in self.items(entry, "reply"))
        numbers = tuple(number for number in reply if isinstance(number, int))
        if len(numbers) != len(REPLY) or len(reply) != len(REPLY):
            self._mistakes.stop(entry.line, f"a reply must have {len(REPLY)} whole numbers")
        return Example(args=args, reply=numbers)

    def _argument(self, node: Node) -> Argument:
        text = self._text(node)
        if not _INTEGER.fullmatch(text):
            return text
        # Check the length first: int() raises on thousands of digits, and its error has no line number.
        if len(text) > _MOST_DIGITS:
            self._mistakes.stop(node.line, f"a number has more than {_MOST_DIGITS} digits")
        return int(text)

    def _command(self, node: Node) -> str:
        """Parse a command name; only names in GRANTABLE are valid.

        The name becomes part of the ACL rule of the runtime user.
        """
        text = self._text(node)
        if text not in GRANTABLE:
            self._mistakes.stop(node.line, f"commands: {shown(text)} is not a command that a limiter script may call")
        return text

    def _text(self, node: Node) -> str:
        if not isinstance(node, Scalar):
            return self._mistakes.stop(node.line, "expected a text or a number")
        return node.text

    def _mapping(self, node: Node) -> Mapping:
        if not isinstance(node, Mapping):
            return self._mistakes.stop(node.line, "expected keys and values")
        return node
