import hashlib
from collections.abc import Callable, Iterable, Mapping

import pytest

from rlctl.errors import Exit, InvalidFile, NotFound
from rlctl.limits.release import REPLY, Release
from rlctl.scripts.manifest import read_manifest
from rlctl.scripts.release import load_release

OLD, NEW = b"#!lua\nreturn 1\n", b"#!lua\nreturn 2\n"
FILES = {"one-1.0.0.lua": OLD, "one-1.1.0.lua": NEW}
OLD_SHA1, NEW_SHA1 = (hashlib.sha1(source, usedforsecurity=False).hexdigest() for source in (OLD, NEW))
MANIFEST = f"""\
version: 1
releases:
  - version: 1.0.0
    scripts: {{one: 1.0.0}}
  - version: 1.1.0
    scripts: {{one: 1.1.0}}
scripts:
  - name: one
    version: 1.0.0
    file: one-1.0.0.lua
    sha1: {OLD_SHA1}
    args: [limit, now_us]
    state: 1
    commands: [get, time]
    examples:
      - {{args: [1, ""], reply: [1, 1, 0, 0, 5, 0]}}
  - name: one
    version: 1.1.0
    file: one-1.1.0.lua
    sha1: {NEW_SHA1}
    args: [limit, now_us]
    state: 1
    commands: [set]
    examples:
      - {{args: [1, 2], reply: [0, 1, 0, -1, 5, 3]}}
"""


def read(text: str = MANIFEST, wanted: str | None = None, files: Mapping[str, bytes] = FILES) -> Release:
    return read_manifest(text.encode(), "manifest.yaml", "lua", reader_of(files)).release(wanted)


def reader_of(files: Mapping[str, bytes]) -> Callable[[str], bytes]:
    def read_file(name: str) -> bytes:
        if name not in files:
            raise FileNotFoundError(2, "No such file or directory", name)
        return files[name]

    return read_file


def mistakes_of(text: str, files: Mapping[str, bytes] = FILES) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        read(text, files=files)
    assert caught.value.exit_code is Exit.INVALID_FILE
    assert caught.value.hint
    return str(caught.value).splitlines()


def versions(release: Release, names: Iterable[str]) -> list[tuple[str, str]]:
    return [(one.name, one.version) for one in release.with_earlier(names)]


def test_bounded_earlier_versions_are_loaded_with_the_releases_own_and_later_ones_are_not() -> None:
    assert versions(read(), ["one"]) == [("one", "1.0.0"), ("one", "1.1.0")]
    assert versions(read(wanted="1.0.0"), ["one"]) == [("one", "1.0.0")]
    assert versions(read(), ["two"]) == []


def test_a_version_that_can_block_a_shard_is_loaded_with_its_own_release_only() -> None:
    text = MANIFEST.replace("    state: 1\n", "    state: 1\n    bounded: false\n", 1)
    assert versions(read(text), ["one"]) == [("one", "1.1.0")]
    assert versions(read(text, wanted="1.0.0"), ["one"]) == [("one", "1.0.0")]
    [line] = mistakes_of(text.replace("bounded: false", "bounded: maybe"))
    assert "bounded" in line


def test_the_shipped_release_loads_no_version_without_bounds() -> None:
    release = load_release()
    loaded = release.with_earlier(script.name for script in release.scripts)
    assert [one.name for one in loaded if not one.bounded] == []
    assert {one.version for one in release.known if not one.bounded} == {"1.0.0", "1.0.1"}


def test_the_last_release_is_the_newest() -> None:
    release = read()
    assert release.version == "1.1.0"
    assert [(script.name, script.version, script.source) for script in release.scripts] == [("one", "1.1.0", NEW)]
    assert release.reply == REPLY
    assert release.digest == hashlib.sha256(MANIFEST.encode()).hexdigest()


def test_a_traceback_does_not_print_whole_scripts() -> None:
    assert "return 2" not in repr(read())


def test_an_older_release_is_still_there() -> None:
    release = read(wanted="1.0.0")
    [script] = release.scripts
    assert (release.version, script.version, script.sha1, script.source) == ("1.0.0", "1.0.0", OLD_SHA1, OLD)
    assert release.commands == ("get", "set", "time"), "services on the later release are still answered"
    assert script.examples[0].args == (1, "")
    assert script.examples[0].reply == (1, 1, 0, 0, 5, 0)


def test_a_negative_number_in_an_example() -> None:
    assert read().scripts[0].examples[0].reply == (0, 1, 0, -1, 5, 3)


def test_earlier_versions_may_be_called_as_long_as_they_are_loaded() -> None:
    assert read().commands == ("get", "set", "time")


@pytest.mark.parametrize("wanted", ["1.2.0", "1.0", "v1.0.0", "", "latest"])
def test_an_unknown_release_is_not_found(wanted: str) -> None:
    with pytest.raises(NotFound, match="no release") as caught:
        read(wanted=wanted)
    assert caught.value.exit_code is Exit.NOT_FOUND
    assert caught.value.hint == "the releases are 1.0.0, 1.1.0"


def test_an_edited_file_is_named_with_its_script_and_version() -> None:
    edited = NEW + b"\n"
    found = hashlib.sha1(edited, usedforsecurity=False).hexdigest()
    [mistake] = mistakes_of(MANIFEST, files=FILES | {"one-1.1.0.lua": edited})
    assert mistake == (
        f"manifest.yaml:19: one 1.1.0: one-1.1.0.lua was edited: its sha1 is {found}, "
        f"not {NEW_SHA1}; give it a new version"
    )


def test_an_edited_file_of_an_older_release_is_refused_too() -> None:
    [mistake] = mistakes_of(MANIFEST, files=FILES | {"one-1.0.0.lua": b"#!lua\r\nreturn 1\r\n"})
    assert mistake.startswith("manifest.yaml:10: one 1.0.0: one-1.0.0.lua was edited")


def test_a_missing_file_is_named() -> None:
    [mistake] = mistakes_of(MANIFEST, files={"one-1.0.0.lua": OLD})
    assert mistake == "manifest.yaml:19: one 1.1.0: cannot read one-1.1.0.lua: No such file or directory"


MISTAKES = [
    pytest.param("version: 1\n", "version: 2\n", "1: `version` is missing or malformed", id="another-format"),
    pytest.param("version: 1\n", "", "1: `version` is missing or malformed", id="no-format"),
    pytest.param("version: 1\n", "version: 1\nmore: 1\n", "2: unknown key `more`", id="unknown-key-at-the-top"),
    *(
        pytest.param(
            "[get, time]",
            f"[get, {word!r}]",
            f"14: commands: `{word}` is not a command that a limiter script may call",
            id=f"command-{word}",
        )
        for word in ("get ~* +@all", "@all", "+get", "GET", "keys", "eval", "config|get", "flushall", "script")
    ),
    pytest.param(
        "scripts: {one: 1.0.0}", "scripts: {}", "4: `scripts` must pin at least one", id="a-release-of-nothing"
    ),
    pytest.param(
        "    scripts: {one: 1.0.0}\n",
        "    scripts: {one: 1.0.0}\n    notes: x\n",
        "5: unknown key `notes`",
        id="unknown-key-of-a-release",
    ),
    pytest.param(
        "    scripts: {one: 1.0.0}\n", "", "3: `scripts` must pin at least one script", id="a-release-without-scripts"
    ),
    pytest.param("{one: 1.1.0}", "[one]", "6: expected keys and values", id="pins-are-a-list"),
    pytest.param("{one: 1.1.0}", "{one: [1]}", "6: expected a text or a number", id="a-pin-is-a-list"),
    pytest.param(
        "{one: 1.1.0}",
        "{one: 1.2.0}",
        "5: release 1.1.0 pins one 1.2.0, which is not in the manifest",
        id="an-absent-version-is-pinned",
    ),
    pytest.param(
        "{one: 1.0.0}",
        "{two: 1.0.0}",
        "3: release 1.0.0 pins two 1.0.0, which is not in the manifest",
        id="an-absent-script-is-pinned-by-an-older-release",
    ),
    pytest.param("- version: 1.1.0", "- version: 1.0.0", "5: release 1.0.0 is given twice", id="a-release-twice"),
    pytest.param("- version: 1.0.0", "- version: 1.0", "3: `version` is missing or malformed", id="release-version"),
    pytest.param("version: 1.1.0\n    file", "version: 1.0.0\n    file", "17: one 1.0.0 is given twice", id="twice"),
    pytest.param("  - name: one\n", "  - one\n", "", id="broken-yaml"),
    pytest.param("name: one", "name: One", "8: `name` is missing or malformed", id="name-in-capitals"),
    pytest.param("name: one", "name: [one]", "8: `name` is missing or malformed", id="name-is-a-list"),
    pytest.param("1.0.0\n    file", "1.0.0-rc1\n    file", "9: `version` is missing or malformed", id="version"),
    pytest.param("file: one-1.0.0", "file: ../one-1.0.0", "10: `file` is missing or malformed", id="file-elsewhere"),
    pytest.param("file: one-1.0.0", "file: /etc/one-1.0.0", "10: `file` is missing or malformed", id="file-absolute"),
    pytest.param("one-1.0.0.lua", "one-1.0.0.txt", "10: `file` is missing or malformed", id="file-of-another-kind"),
    pytest.param(OLD_SHA1, OLD_SHA1[1:], "11: `sha1` is missing or malformed", id="sha1-cut"),
    pytest.param(OLD_SHA1, OLD_SHA1.upper(), "11: `sha1` is missing or malformed", id="sha1-in-capitals"),
    pytest.param(f"    sha1: {OLD_SHA1}\n", "", "8: `sha1` is missing or malformed", id="no-sha1"),
    pytest.param("state: 1", "state: one", "13: `state` is missing or malformed", id="state-in-words"),
    pytest.param("state: 1", f"state: {'9' * 5000}", "13: `state` is missing or malformed", id="state-without-end"),
    pytest.param("state: 1", "state: 1\n    flags: [x]", "14: unknown key `flags`", id="unknown-key-of-a-script"),
    pytest.param("    args: [limit, now_us]\n", "", "8: `args` must be a non-empty list", id="no-args"),
    pytest.param("[limit, now_us]", "[]", "12: `args` must be a non-empty list", id="empty-args"),
    pytest.param("[limit, now_us]", "[[limit]]", "12: expected a text or a number", id="an-arg-is-a-list"),
    pytest.param("[get, time]", "get", "14: `commands` must be a non-empty list", id="commands-is-a-text"),
    pytest.param('{args: [1, ""], ', "{", "16: `args` must be a non-empty list", id="example-without-args"),
    pytest.param(", 0, 0, 5, 0]", ", 0, 0, 5]", "16: a reply must have 6 whole numbers", id="a-reply-of-five"),
    pytest.param(", 0, 0, 5, 0]", ", 0, 0, 5, 0, 0]", "16: a reply must have 6 whole numbers", id="a-reply-of-seven"),
    pytest.param(", 0, 0, 5, 0]", ", 0, 0, x, 5, 0]", "16: a reply must have 6 whole numbers", id="a-word-in-a-reply"),
    pytest.param(
        ", 0, 0, 5, 0]", ", 0, 0, 5, 0.5]", "16: a reply must have 6 whole numbers", id="a-fraction-in-a-reply"
    ),
    pytest.param('[1, ""]', f'[{"9" * 5000}, ""]', "16: a number has more than", id="a-number-without-end"),
    pytest.param('[1, ""]', "[1, 2, 3]", "16: more arguments than `args` lists", id="example-with-too-many-args"),
    pytest.param('[1, ""], reply', '[1, ""], why: x, reply', "16: unknown key `why`", id="unknown-key-of-an-example"),
]


@pytest.mark.parametrize(("before", "after", "expected"), MISTAKES)
def test_a_mistake_is_named_with_its_line(before: str, after: str, expected: str) -> None:
    assert before in MANIFEST
    mistakes = mistakes_of(MANIFEST.replace(before, after, 1))
    assert any(mistake.startswith(f"manifest.yaml:{expected}") for mistake in mistakes), mistakes


def test_all_unknown_keys_are_named_at_once() -> None:
    text = MANIFEST.replace("state: 1\n", "state: 1\n    flag: 1\n    kind: script\n", 1)
    assert mistakes_of(text) == ["manifest.yaml:14: unknown key `flag`", "manifest.yaml:15: unknown key `kind`"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [*{of}, *{of}, *{of}, *{of}, *{of}, *{of}]\n"
    for of, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = [
    pytest.param(BOMB, "the anchor `&a` is not allowed", id="aliases-of-aliases"),
    pytest.param("version: 1\nscripts: " + "[" * 5000, "levels deep", id="nested-without-end"),
    pytest.param(
        "version: 1\nscripts: [" + "a, " * 160_000 + "]", "more than 150000 keys, values and lists", id="endless-list"
    ),
    pytest.param("#" * (1024 * 1024 + 1), "larger than 1 MiB", id="too-large"),
    pytest.param("version: !!python/object:os.system 1\n", "the tag", id="a-tag-that-makes-an-object"),
    pytest.param("version: 1\nversion: 1\n", "given twice", id="a-key-twice"),
    pytest.param("", "empty", id="empty"),
    pytest.param("- 1\n", "a list", id="a-list"),
    pytest.param("version: 1\n---\nversion: 1\n", "second document", id="two-documents"),
    pytest.param("version: \x00", "control character", id="nul"),
]


@pytest.mark.parametrize(("text", "says"), HOSTILE)
def test_hostile_yaml_is_refused_by_line(text: str, says: str) -> None:
    mistakes = mistakes_of(text)
    assert all(mistake.startswith("manifest.yaml:") for mistake in mistakes)
    assert any(says in mistake for mistake in mistakes), mistakes


def test_the_json_of_a_release() -> None:
    assert read(wanted="1.0.0").to_json() == {
        "schema": "rlctl.scripts-list/1",
        "release": "1.0.0",
        "scripts": [
            {
                "name": "one",
                "version": "1.0.0",
                "sha1": OLD_SHA1,
                "file": "lua/one-1.0.0.lua",
                "args": ["limit", "now_us"],
                "reply": ["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "reason"],
                "state": 1,
            }
        ],
    }


def test_a_script_is_found_by_name() -> None:
    release = read()
    script = release.script("one")
    assert script is not None
    assert script.version == "1.1.0"
    assert release.script("two") is None
