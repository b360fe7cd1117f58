import pytest

from rlctl.errors import InvalidFile
from rlctl.files.mistakes import MOST_MISTAKES, Mistakes
from rlctl.files.yaml import MAX_BYTES, Entry, Mapping, Scalar, Sequence, compose


def composed(text: bytes) -> Mapping:
    mistakes = Mistakes("f.yaml")
    root = compose(text, mistakes)
    mistakes.raise_any()
    return root


def test_values_stay_as_typed_with_their_lines() -> None:
    root = composed(b"# note\na: 1:30\nb:\n  - 'no'\n  - no\nc: ~\n")
    assert root == Mapping(
        line=2,
        entries={
            "a": Entry(line=2, value=Scalar(line=2, text="1:30", is_plain=True)),
            "b": Entry(
                line=3,
                value=Sequence(
                    line=4,
                    items=(
                        Scalar(line=4, text="no", is_plain=False),
                        Scalar(line=5, text="no", is_plain=True),
                    ),
                ),
            ),
            "c": Entry(line=6, value=Scalar(line=6, text="~", is_plain=True)),
        },
    )


@pytest.mark.parametrize(
    "text", [b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", b"---\na: 1\nb: 2\n...\n"], ids=["bom-and-crlf", "one-document"]
)
def test_harmless_dress_is_accepted(text: bytes) -> None:
    assert list(composed(text).entries) == ["a", "b"]


CHECK = "check indentation, quotes and brackets"
NOT_YAML = "this is not valid YAML"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param(b"", ["1: the file is empty; write `key: value` lines"], id="empty"),
        pytest.param(b"# only\n# comments\n", ["1: the file is empty; write `key: value` lines"], id="comments"),
        pytest.param(
            b"---\n#", ["2: the file holds a single value, not a mapping; write `key: value` lines"], id="comment-last"
        ),
        pytest.param(b"\n- a\n", ["2: the file holds a list, not a mapping; write `key: value` lines"], id="list"),
        pytest.param(
            b"\n\nabc\n", ["3: the file holds a single value, not a mapping; write `key: value` lines"], id="scalar"
        ),
        pytest.param(b"a: 1\nb: \xff\n", ["2: the line is not UTF-8 text; save the file as UTF-8"], id="not-utf-8"),
        pytest.param("a: 1".encode("utf-16"), ["1: the line is not UTF-8 text; save the file as UTF-8"], id="utf-16"),
        pytest.param(b"a: 1\nb: \x00\n", ["2: the line has the control character U+0000; delete it"], id="nul"),
        pytest.param(b"a: 1\rb: 2\n", ["1: the line has the control character U+000D; delete it"], id="lone-cr"),
        pytest.param(
            "a: 1\u2028b: 2\n".encode(),
            ["1: the line has the control character U+2028; delete it"],
            id="u2028",
        ),
        pytest.param(
            b"a: 1\nb: 2\na: 3\na: 4\n",
            [
                "3: `a` is given twice, first on line 1; keep one",
                "4: `a` is given twice, first on line 1; keep one",
            ],
            id="duplicates",
        ),
        pytest.param(
            b"a: &x 1\nb: *x\nc: 1\n",
            [
                "1: the anchor `&x` is not allowed; write each value out",
                "2: the alias `*x` is not allowed; write the value out",
            ],
            id="anchor-and-alias",
        ),
        pytest.param(
            b"a: !!python/object/apply:os.system [x]\n",
            [("1: the tag `tag:yaml.org,2002:python/object/apply:os.system` is not allowed; write the plain value")],
            id="tag",
        ),
        pytest.param(
            b"a: 1\n---\nb: 2\n",
            ["2: a second document starts here; keep one document in a file"],
            id="documents",
        ),
        pytest.param(
            b"a:\n  " + b"[" * 5_000,
            ["2: the file is nested more than 20 levels deep; use fewer levels"],
            id="deep-flow",
        ),
        pytest.param(
            b"".join(b" " * depth + b"a:\n" for depth in range(1_000)),
            ["21: the file is nested more than 20 levels deep; use fewer levels"],
            id="deep-block",
        ),
        pytest.param(
            b"a: [" + b"1," * 160_000 + b"]",
            ["1: more than 150000 keys, values and lists; is this the right file?"],
            id="many",
        ),
        pytest.param(
            b"#" * (MAX_BYTES + 1),
            ["1: the file is larger than 1 MiB; is this the right file?"],
            id="large",
        ),
        pytest.param(b"? [a]\n: b\n", ["1: a key cannot be a list or a mapping; write `key: value`"], id="complex-key"),
        pytest.param(
            b'a: "\\ud800"\n',
            [f"1: {NOT_YAML} (found invalid Unicode character escape code); {CHECK}"],
            id="surrogate",
        ),
        pytest.param(
            b"a: 1\n\tb: 2\n",
            [
                (
                    f"2: {NOT_YAML} (found a tab character that violates indentation, in the block from line 1); "
                    "indent with spaces"
                )
            ],
            id="tab",
        ),
        pytest.param(
            b"a: b: c\n",
            [
                (
                    f"1: {NOT_YAML} (mapping values are not allowed in this context); "
                    "check the indentation, and quote a value that holds `: `"
                )
            ],
            id="two-colons",
        ),
        pytest.param(
            b"a: 1\nbcd\ne: 1\n",
            [
                (
                    f"3: {NOT_YAML} (could not find expected ':', in the block from line 2); "
                    "write each setting as `key: value`"
                )
            ],
            id="no-colon",
        ),
        pytest.param(
            b"a: {b: 1\n\nc: 2\n",
            [
                f"3: {NOT_YAML} (did not find expected ',' or '}}', in the block from line 1); {CHECK}",
            ],
            id="open-brace",
        ),
        pytest.param(
            b'a: 1\nb: "\\U00110000"\n',
            [f"2: {NOT_YAML} (found invalid Unicode character escape code); {CHECK}"],
            id="escape-out-of-range",
        ),
        pytest.param(
            b"%YAML 9.9\n---\na: 1\n",
            [
                f"1: {NOT_YAML} (found incompatible YAML document); {CHECK}",
            ],
            id="yaml-9",
        ),
    ],
)
def test_what_is_refused(text: bytes, messages: list[str]) -> None:
    with pytest.raises(InvalidFile) as refused:
        composed(text)
    assert refused.value.message.splitlines() == [f"f.yaml:{message}" for message in messages]


def test_reading_stops_after_many_mistakes() -> None:
    with pytest.raises(InvalidFile) as refused:
        composed(b"a: 1\n" * 40_000)
    lines = refused.value.message.splitlines()
    assert len(lines) == MOST_MISTAKES + 1
    assert lines[-1] == "f.yaml:51: rlctl stopped reading after 50 mistakes; correct these first"
