"""The shipped scripts as texts: what no server needs to be asked for."""

import hashlib
import re
from pathlib import Path

import pytest

from rlctl.assets import asset_folder
from rlctl.limits.release import Script
from rlctl.scripts.release import load_release

FOLDER = asset_folder("lua")
RELEASE = load_release()
SEVEN = ["token_bucket", "gcra", "fixed_window", "rolling_window", "rolling_ring", "sliding_counter", "concurrent"]
EACH = pytest.mark.parametrize("script", RELEASE.scripts, ids=lambda script: script.name)

REASON_OK, REASON_OVER, REASON_NEVER = 0, 1, 3
LOCAL_NAMES = {
    "period_ms": "period",
    "window_ms": "window",
    "min_interval_ms": "interval",
    "lease_ms": "lease",
    "request_id": "id",
    "now_us": "now",
}
KEYWORDS = {
    *("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not"),
    *("or", "repeat", "return", "then", "true", "until", "while"),
}
# What a script may take from outside; everything else it uses must be a local of its own.
OUTSIDE = frozenset({"redis", "string", "struct", "table", "unpack", "error", "KEYS", "ARGV"})
FORBIDDEN = [
    pytest.param(r"\bpcall\b", id="pcall-hides-errors"),
    pytest.param(r"replicate_commands", id="replicate_commands"),
    pytest.param(r"\b(SCAN|EVAL|EVALSHA|FLUSHALL|FLUSHDB|RANDOMKEY)\b", id="other-keys"),
    pytest.param(r"call\('KEYS'", id="keys-command"),
    pytest.param(r"%\.\d+f|tostring|math\.floor", id="floats"),
    pytest.param(r"\b\d+\.\d", id="decimals"),
    pytest.param(r"KEYS\[(?!1\])", id="another-key"),
    pytest.param(r"loadstring|dofile|require|setfenv|getfenv|_G\b", id="other-code"),
]


def text_of(script: Script) -> str:
    return script.source.decode("ascii")


def code_of(script: Script) -> str:
    """The script without comments; texts are emptied."""
    bare = re.sub(r"--[^\n]*", "", text_of(script).partition("\n")[2])
    return re.sub(r"'[^']*'", "''", bare)


def names_in(code: str) -> set[str]:
    """Identifiers that are neither fields nor keys of a table in the making."""
    fields = r"(?<![\w.])([A-Za-z_]\w*)\b(?!\s*=[^=][^=]*\})"
    return set(re.findall(fields, code)) - KEYWORDS


def locals_of(code: str) -> set[str]:
    declared = re.findall(r"\blocal ((?!function)[\w, ]+)", code)
    declared += re.findall(r"\bfunction \w+\(([\w, ]*)\)", code)
    declared += re.findall(r"\bfor ([\w, ]+?) (?:=|in)", code)
    functions = re.findall(r"\blocal function (\w+)", code)
    return {name.strip() for names in declared for name in names.split(",")} | set(functions)


def test_the_release_holds_the_seven_algorithms() -> None:
    assert [script.name for script in RELEASE.scripts] == SEVEN


@EACH
def test_the_sha1_is_that_of_the_bytes(script: Script) -> None:
    source = (FOLDER / script.file).read_bytes()
    assert source == script.source
    assert hashlib.sha1(source, usedforsecurity=False).hexdigest() == script.sha1


@EACH
def test_the_file_says_name_and_version(script: Script) -> None:
    assert script.file == f"{script.name}-{script.version}.lua"


@EACH
def test_the_first_line_is_the_shebang_without_flags(script: Script) -> None:
    assert script.source.startswith(b"#!lua\n--")


@EACH
def test_the_bytes_are_plain(script: Script) -> None:
    source = script.source
    assert source.isascii()
    assert b"\r" not in source
    assert b"\t" not in source
    assert source.endswith(b"\n")
    assert not source.endswith(b"\n\n")
    lines = text_of(script).splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert [line for line in lines if len(line) > 120] == []


@EACH
@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_nothing_forbidden_stands_in_it(script: Script, pattern: str) -> None:
    commentless = re.sub(r"--[^\n]*", "", text_of(script))
    assert re.search(pattern, commentless) is None


@EACH
def test_it_uses_no_globals(script: Script) -> None:
    code = code_of(script)
    assert names_in(code) - locals_of(code) - OUTSIDE == set()


@EACH
def test_the_manifest_names_exactly_the_commands_it_calls(script: Script) -> None:
    text = text_of(script)
    called = re.findall(r"\bcall\('([A-Z]+)'", text)
    assert text.count("call(") == len(called), "a command that is not written out"
    assert len(re.findall(r"redis\.call\b(?!\()", text)) == 1, "no other alias than `call`"
    assert tuple(sorted({command.lower() for command in called})) == script.commands


@EACH
def test_the_server_time_is_read_once_and_only_where_no_instant_is_given(script: Script) -> None:
    assert text_of(script).count("call('TIME')") == 1
    assert re.search(r"if not now or now == '' then\n  local time = call\('TIME'\)", text_of(script))


@EACH
def test_every_text_for_a_number_is_formatted(script: Script) -> None:
    """Servers differ in how they print a number handed to a command: what is not a name must be a text."""
    for arguments in re.findall(r"\bcall\(([^\n]*)", text_of(script)):
        assert re.search(r",\s*-?\d", re.sub(r"'[^']*'|format\([^)]*\)|string\.rep\([^)]*\)", "x", arguments)) is None


@EACH
def test_the_last_argument_is_the_instant(script: Script) -> None:
    assert script.args[-1] == "now_us"
    assert len(set(script.args)) == len(script.args)
    names = ", ".join(LOCAL_NAMES.get(name, name) for name in script.args)
    assert f"local {names}, more = unpack(ARGV, 1, {len(script.args) + 1})\n" in text_of(script)


@EACH
def test_the_examples_cover_every_kind_of_answer(script: Script) -> None:
    peeks = {"peek", 0}
    asked = script.args.index("verb" if "verb" in script.args else "cost")
    replies = [example.reply for example in script.examples]
    assert len(replies) >= 5
    assert all(len(example.args) == len(script.args) for example in script.examples), "with the instant, always"
    assert any(reply[0] == 1 and reply[5] == REASON_OK for reply in replies), "an admitted call"
    assert any(reply[0] == 0 and reply[5] == REASON_OVER and reply[3] > 0 for reply in replies), "a denied call"
    assert any(reply[0] == 0 and reply[5] == REASON_NEVER and reply[3] == -1 for reply in replies), "an impossible one"
    assert any(example.args[asked] in peeks for example in script.examples), "a peek"


def test_the_commands_of_all_scripts_give_no_way_to_other_keys() -> None:
    assert set(RELEASE.commands).isdisjoint({"keys", "scan", "eval", "evalsha", "script", "flushall", "del", "rename"})


def test_nothing_else_lies_in_the_folder() -> None:
    shipped = {path.name for path in Path(FOLDER).iterdir()} - {".gitkeep"}
    assert shipped - {script.file for script in RELEASE.scripts} >= {"manifest.yaml", "manifest.json", "released.txt"}
    others = {name for name in shipped if not name.endswith((".lua", ".md"))}
    assert others == {"manifest.yaml", "manifest.json", "released.txt"}
