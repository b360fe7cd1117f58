"""What servers, keys and identities say reaches a terminal as text that cannot control it."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.cli.output import Output, write_stderr
from rlctl.cli.visible import visible, visible_cell

OUTPUT = Output(as_json=False, quiet=False, colour=True)
HOSTILE = "\x1b]0;pwned\x07\x1b[2J\r\x9b31m\u202eevil\u2069 \ud800"
SHOWN = r"\x1b]0;pwned\x07\x1b[2J\r\x9b31m\u202eevil\u2069 \ud800"


@pytest.mark.parametrize(
    "say",
    [
        pytest.param(write_stderr, id="write_stderr"),
        pytest.param(OUTPUT.note, id="note"),
        pytest.param(OUTPUT.text, id="text"),
        pytest.param(OUTPUT.line, id="line"),
        pytest.param(lambda text: OUTPUT.table(["KEY"], [[text]]), id="cell"),
        pytest.param(lambda text: OUTPUT.table(["KEY"], [], title=text), id="title"),
        pytest.param(lambda text: OUTPUT.step(1, 2, text, "done"), id="step"),
    ],
)
def test_control_characters_are_escaped_once(say: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    out, err = capsys.readouterr()
    assert (out + err).count(SHOWN) == 1
    assert not set(out + err) & set("\x1b\x07\r\x9b\u202e\u2069")


def test_a_cell_makes_no_rows_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    OUTPUT.table(["KEY", "BYTES"], [["a\nhealthy 1\tb", "7"], ["c", "8"]])
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_lines_of_text_stay_lines_and_other_alphabets_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    OUTPUT.text("one\n\ttwo: größe 日本 \\x1b")
    assert capsys.readouterr().out == "one\n\ttwo: größe 日本 \\x1b\n"


def test_what_programs_read_is_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    OUTPUT.verbatim("export A='\u202e'")
    assert capsys.readouterr().out == "export A='\u202e'\n"


@given(st.text())
def test_nothing_that_controls_a_terminal_is_left(text: str) -> None:
    shown = visible(text)
    assert all(unicodedata.category(one) not in {"Cc", "Cs"} or one in "\t\n" for one in shown)
    assert not set(visible_cell(text)) & set("\t\n")
    shown.encode()
