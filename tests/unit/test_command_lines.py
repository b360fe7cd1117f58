"""Every command line in pages and sources is valid."""

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from rlctl.cli.main import COMMANDS
from tests.command_lines import commands_in, parse_line

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "lua").rglob("*.md"),
        *(ROOT / "tests").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(path for path in (ROOT / ".github").rglob("*") if path.suffix in {".md", ".yml"}),
        *(ROOT / "runbooks").rglob("*.md"),
        *(ROOT / "playbooks").rglob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
    ]
)
SOURCES = sorted((ROOT / "rlctl").rglob("*.py"))
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SHELLS = {"", "sh", "bash", "shell", "console"}
SPAN = re.compile(r"`([^`]+)`")
OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
CHOICE = re.compile(r"[a-z-]+(/[a-z-]+)+")
BARE = re.compile(r"\brlctl ([a-z][a-z-]*)[^;\n]*")
# Similarity of a misspelled command to a real one. `rlctl does` is a sentence, not a command.
LIKE = 0.75
# Line number, text, and whether the command must be complete.
Line = tuple[int, str, bool]


def mistakes_in_page(where: str, text: str) -> list[str]:
    """The command lines of a Markdown page: blocks of shell, and code spans."""
    return mistakes(where, [*blocks(text), *spans(FENCE.sub(lambda found: "\n" * found[0].count("\n"), text))])


def mistakes_in_source(where: str, text: str) -> list[str]:
    """The command lines of a Python source: examples in docstrings, and code spans in any text."""
    tree = ast.parse(text)
    found = mistakes(where, [line for node in ast.walk(tree) for line in texts(node)])
    # A code span is reported once.
    return found + mistakes(where, [line for first, said in messages(tree) for line in bare(said, first)])


def mistakes(where: str, lines: list[Line]) -> list[str]:
    found = []
    for number, text, is_whole in lines:
        try:
            problems = [parse_line(words, is_whole=is_whole) for words in commands_in(text)]
        except ValueError as failure:
            problems = [str(failure)]
        found += [f"{where}:{number}: {text.strip()}: {problem}" for problem in problems if problem]
    return found


def blocks(text: str) -> Iterator[Line]:
    for fence in FENCE.finditer(text):
        if fence[1] in SHELLS:
            first = text.count("\n", 0, fence.start(2)) + 1
            # A continued line is reported at its end.
            joined = fence[2].replace("\\\n", "\0")
            number = first
            for line in joined.splitlines():
                yield number, line.replace("\0", ""), True
                number += 1 + line.count("\0")


def spans(text: str, first: int = 1) -> Iterator[Line]:
    for span in SPAN.finditer(text):
        code = " ".join(span[1].split())
        if code.startswith("rlctl "):
            number = first + text.count("\n", 0, span.start())
            yield from ((number, one, False) for one in spellings(code))


def spellings(synopsis: str) -> Iterator[str]:
    """The command lines of a synopsis: without and with each optional part, and both of `a/b`."""
    shortest = OPTIONAL.sub("", synopsis)
    parts = [one for found in OPTIONAL.findall(synopsis) for one in found.split(" / ")]
    for spelling in (shortest, *(f"{shortest} {part}" for part in parts)):
        words = [word.removesuffix("...") for word in spelling.split()]
        choices = [word.split("/") if CHOICE.fullmatch(word) else [word] for word in words if word]
        yield from map(" ".join, product(*choices))


def texts(node: ast.AST) -> Iterator[Line]:
    match node:
        case ast.FunctionDef() if doc := ast.get_docstring(node, clean=False):
            first = node.body[0].lineno
            for number, line in enumerate(doc.splitlines(), start=first):
                if line.strip().startswith("rlctl "):
                    yield number, line, True
        case ast.Constant(value=str(text)):
            yield from spans(text, node.lineno)
        case ast.JoinedStr():
            yield from spans(whole(node), node.lineno)
        case _:
            pass


def whole(text: ast.JoinedStr) -> str:
    return "".join(str(one.value) if isinstance(one, ast.Constant) else "STAND_IN" for one in text.values)


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every text of a source except docstrings, with its line."""
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(one) for one in node.values}
            yield node.lineno, whole(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


def bare(text: str, first: int) -> Iterator[Line]:
    """Commands in a text without backquotes, up to its end or a semicolon."""
    if FENCE.search(text):
        return
    for found in BARE.finditer(SPAN.sub("", text)):
        if get_close_matches(found[1], COMMANDS, n=1, cutoff=LIKE):
            yield first, found[0], False


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_pages(page: Path) -> None:
    assert mistakes_in_page(place(page), read(page)) == []


@pytest.mark.parametrize("source", SOURCES, ids=place)
def test_sources(source: Path) -> None:
    assert mistakes_in_source(place(source), read(source)) == []


def test_there_is_something_to_read() -> None:
    lines = [line for page in PAGES for line in (*blocks(read(page)), *spans(read(page)))]
    lines += [line for source in SOURCES for node in ast.walk(ast.parse(read(source))) for line in texts(node)]
    assert sum(len(list(commands_in(text))) for _number, text, _is_whole in lines if "rlctl" in text) > 200


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        pytest.param("rlctl status", [("status",)], id="plain"),
        pytest.param("  $ rlctl status -o json | jq '.nodes[]'", [("status", "-o", "json")], id="prompt and pipe"),
        pytest.param("rlctl deploy --yes  # the rest's", [("deploy", "--yes")], id="remark"),
        pytest.param("rlctl deploy --yes      what's done", [("deploy", "--yes")], id="remark after a gap"),
        pytest.param("rlctl env > file; rlctl demo 2>&1 &", [("env",), ("demo",)], id="redirections"),
        pytest.param('eval "$(rlctl env)"      # for you', [("env",)], id="inside a quote"),
        pytest.param("if ! A=1 rlctl status && rlctl doctor; then", [("status",), ("doctor",)], id="conditions"),
        pytest.param(
            "echo '{\"a\":  1}' | rlctl capacity plan --mix -", [("capacity", "plan", "--mix", "-")], id="stdin"
        ),
        pytest.param("rlctl rules shadow <rule id>", [("rules", "shadow", "STAND_IN")], id="angles"),
        pytest.param("rlctl x --abort-if 'errors  >1%' y", [("x", "--abort-if", "errors  >1%", "y")], id="quoted gap"),
        pytest.param("rlctl x '' '>1%' | cat", [("x", "", ">1%")], id="quoted signs"),
        pytest.param("ls rlctl/cli  it's", [], id="a folder"),
        pytest.param("man rlctl", [], id="an argument"),
    ],
)
def test_commands_of_a_line(line: str, commands: list[tuple[str, ...]]) -> None:
    assert list(commands_in(line)) == commands


@pytest.mark.parametrize(
    "line",
    [
        "rlctl --help",
        "rlctl -f FILE status -o json",
        "rlctl --version",
        "rlctl rules promote --help",
        "rlctl failover-drill --kind sentinel --dry-run",
        "rlctl history -n $COUNT",
        "rlctl history -n ${COUNT}",
        "rlctl completion SHELL",
        "rlctl capacity plan --rules FILE --users RULE=N --ram $RAM",
        "rlctl resize",
        "rlctl resize <size>",
        "rlctl limit RULE IDENTITY",
    ],
)
def test_good_lines(line: str) -> None:
    assert mistakes_in_page("page", f"```\n{line}\n```\n") == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param("rlctl statsu", "no such command 'statsu'", id="command"),
        pytest.param("rlctl rules promot RULE", "No such command 'promot'", id="verb"),
        pytest.param("rlctl deploy --dryrun", "No such option '--dryrun'", id="option"),
        pytest.param("rlctl --quite status", "No such option '--quite'", id="option of all"),
        pytest.param("rlctl status now", "unexpected: now", id="argument too many"),
        pytest.param("rlctl env --as root", "'root' is not one of", id="choice"),
        pytest.param("rlctl history -n few", "'few' is not a valid integer", id="number"),
        pytest.param("rlctl status --timeout 5", "has no unit", id="duration"),
        pytest.param("rlctl resize 512", "has no unit", id="size"),
        pytest.param("rlctl status --timeout", "requires an argument", id="value"),
        pytest.param("true | rlctl frobnicate", "no such command 'frobnicate'", id="after a pipe"),
        pytest.param("rlctl deploy --yes 'now", "No closing quotation", id="quote"),
    ],
)
def test_bad_lines(line: str, says: str) -> None:
    (told,) = mistakes_in_page("page.md", f"# Title\n\n```sh\nls\n{line}\n```\n")
    assert told.startswith(f"page.md:5: {line}: ")
    assert says in told


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("rlctl rules promote", "Missing argument 'RULE'"),
        ("rlctl secrets", "a command is missing"),
        ("rlctl", "a command is missing"),
        ("rlctl completion", "Missing argument"),
        ("rlctl history -n", "requires an argument"),
        ("rlctl $VERB", "no such command"),
    ],
)
def test_a_block_is_whole_a_mention_need_not_be(line: str, says: str) -> None:
    (told,) = mistakes_in_page("page.md", f"```\n{line}\n```\n")
    assert says in told
    assert mistakes_in_page("page.md", f"As `{line}` does.\n") == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("With `rlctl rules\npromot RULE`.", "page.md:3: rlctl rules promot RULE: ", id="over lines"),
        pytest.param("`rlctl deploy [--dry-run] [--pln F]`", "No such option '--pln'", id="optional part"),
        pytest.param("`rlctl secrets export/inport FILE`", "No such command 'inport'", id="one of two"),
        pytest.param("`rlctl env [--as limiter/root]`", "'root' is not one of", id="one of two values"),
        pytest.param("`rlctl inventory [--list / --hosst H]`", "No such option '--hosst'", id="one of two options"),
    ],
)
def test_bad_mentions(text: str, says: str) -> None:
    (told,) = mistakes_in_page("page.md", f"# Title\n\n{text}\n")
    assert told.startswith("page.md:3: rlctl ")
    assert says in told


@pytest.mark.parametrize(
    ("source", "says"),
    [
        pytest.param('FIX = "rlctl dploy --now"', "no such command 'dploy'", id="alone"),
        pytest.param('FIX = "wait; rlctl status --wat"', "No such option '--wat'", id="after a semicolon"),
        pytest.param('FIX = "rlctl deploy starts them"', "unexpected: starts", id="in a sentence"),
        pytest.param('x = f"{a}; see rlctl statsu"', "no such command 'statsu'", id="formatted"),
        pytest.param('help("see `rlctl dploy`")', "no such command 'dploy'", id="marked"),
    ],
)
def test_bad_messages(source: str, says: str) -> None:
    (told,) = mistakes_in_source("source.py", source)
    assert told.startswith("source.py:1: rlctl ")
    assert says in told


@pytest.mark.parametrize(
    "source",
    [
        'FIX = "rlctl deploy"',
        'FIX = "wait; rlctl status --wait; then go on"',
        'FIX = "rlctl does not remove members"',
        'def f():\n    """As rlctl deploys it."""',
    ],
)
def test_good_messages(source: str) -> None:
    assert mistakes_in_source("source.py", source) == []


def test_a_line_that_goes_on_keeps_the_numbers() -> None:
    page = "```\nrlctl deploy \\\n  --yes\nrlctl statsu\n```\n"
    (told,) = mistakes_in_page("page.md", page)
    assert told.startswith("page.md:4: rlctl statsu: ")


def test_bad_lines_in_source() -> None:
    source = '''"""rlctl is no command here."""
def status():
    """Look.

    Examples:
      rlctl statsu --watch    # look at it
    """
    raise Refused("no", hint=f"`rlctl rules promot {rule}`")
'''
    told = mistakes_in_source("x.py", source)
    assert [one.partition(": ")[0] for one in sorted(told)] == ["x.py:6", "x.py:8"]
