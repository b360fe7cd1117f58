"""Words of the glossary that docstrings, comments, messages and names of definitions may not use.

`language_debt.json` counts what each file still uses. A count may only shrink: a new file starts at none, and a file
that uses fewer than its count has to have the count lowered.
"""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.sources import ROOT

DEBT = Path(__file__).with_name("language_debt.json")
# A pattern, and what to write instead.
WORDS = {
    r"who|whom|whoever|whomever": "the node, the client, the process, the operator: name the actor",
    r"somebody|nobody|anybody": "another process, no node, any client: name the actor",
    r"he|him|his": "the node, the operator",
    r"told": "reported, sent, shown",
    r"mend|mends|mended|mending": "repair; heal for undoing a drill's fault",
    r"sweep|sweeps|swept|sweeping|tidy|tidies|tidied": "clean up, rotate",
    r"estate|crew|cast|arena|stage|programme|dossier|shelf|gist|perch|perches|sing|sings|voice": (
        "fleet, clients, roles, environment, run, record, catalog, summary, probe, ping"
    ),
    r"heir|heirs|handover|handovers": "new primary, candidate; failover",
    r"hurry|hurries": "shorten the timers",
    r"broken off|breaks off": "aborted",
    r"otherwise than|put right|puts right|none of its business": "a plain sentence with the field's words",
}
NAMES = (
    "mend|mending|sweep|swept|tidy|estate|crew|cast|arena|dossier|shelf|gist|perch|perches|sing|voice|heir|handover"
    "|hurry|teller|nobody|somebody"
)
_PATTERN = re.compile(rf"(?<![-\w])(?:{'|'.join(WORDS)})(?![-\w])", re.IGNORECASE)
_NAME = re.compile(rf"(?:^|_)(?:{NAMES})(?:_|$)")


@cache
def sampler() -> ModuleType:
    """scripts/sample-language, which finds the texts of a file."""
    loader = SourceFileLoader("sample_language", str(ROOT / "scripts/sample-language"))
    spec = spec_from_loader("sample_language", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def forbidden_words(words: str) -> list[str]:
    """The words of a text that the glossary replaces."""
    return [found[0].lower() for found in _PATTERN.finditer(re.sub(r"`[^`]*`", "", words))]


def advice(word: str) -> str:
    """What to write instead of a forbidden word."""
    return next(instead for pattern, instead in WORDS.items() if re.fullmatch(pattern, word))


def violations(path: Path) -> list[str]:
    """Each use of a forbidden word in a source file, with its place and what to write instead."""
    found = [
        f"{text.place}: {word!r} in a {text.kind}; write: {advice(word)}"
        for text in sampler().texts(path)
        for word in forbidden_words(text.words)
    ]
    return [*found, *_names(path)]


def _names(path: Path) -> Iterator[str]:
    place = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).lower()
            if _NAME.search(name):
                yield f"{place}:{node.lineno}: the name {node.name}; the glossary is in CONTRIBUTING.md"


def sources() -> list[str]:
    """All modules of the product, as paths from the project's root."""
    return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "rlctl").rglob("*.py"))]


def debt() -> dict[str, int]:
    """Uses of forbidden words that are still allowed, by file."""
    allowed: dict[str, int] = json.loads(DEBT.read_text("utf-8"))
    return allowed


@pytest.mark.parametrize("source", sources())
def test_texts_and_names_use_the_glossary(source: str) -> None:
    found, allowed = violations(ROOT / source), debt().get(source, 0)
    assert len(found) <= allowed, "\n".join(found)
    assert len(found) == allowed, f"{source} uses {len(found)} forbidden words: lower its count in {DEBT.name}"


def test_the_debt_names_files_that_exist() -> None:
    assert set(debt()) <= set(sources())


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Nobody answers", ["nobody"]),
        ("the node that was mended is told so", ["mended", "told"]),
        ("`heir` is a word of the code, lag-sweep the name of a scenario", []),
        ("somebody else broken off", ["somebody", "broken off"]),
    ],
)
def test_a_forbidden_word_is_found(words: str, found: list[str]) -> None:
    assert forbidden_words(words) == found


def test_a_forbidden_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.test_language.ROOT", tmp_path)
    path = tmp_path / "x.py"
    path.write_text("class HeirStop: ...\ndef tidy_up(): ...\ndef order(): ...\n", "utf-8")
    assert [line.split(";")[0] for line in _names(path)] == ["x.py:1: the name HeirStop", "x.py:2: the name tidy_up"]


if __name__ == "__main__":
    counts = {source: len(found) for source in sources() if (found := violations(ROOT / source))}
    DEBT.write_text(json.dumps(counts, indent=2) + "\n", "utf-8")
