"""Check written command lines against the real command tree, without running them."""

import re
import shlex
from collections.abc import Iterator, Sequence

import click

from rlctl.cli.main import root

_HELP = {"-h", "--help", "--version"}
# Words that may precede a command in a shell.
_BEFORE = {"!", "if", "while", "until", "then", "do", "else", "time", "exec", "sudo", "$"}
_OPERATORS = frozenset("();<>|&")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
# A placeholder: NAME, <name>, $NAME, also as a part of a word.
_STAND_IN = re.compile(r"<[A-Za-z][^<>]*>|\$|[A-Z][A-Z0-9_]*(=.*)?$")
_ANGLED = re.compile(r"<[A-Za-z][\w-]*(?: [\w-]+)*>")
_START = re.compile(r"(?<![\w./-])rlctl(?![\w./-])")
# Words and quoted texts, up to the gap before a comment.
_UP_TO_A_GAP = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\S|\s(?!\s))*")
_DESCRIPTOR = re.compile(r"(?<=\s)[12](?=>)")
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")


def commands_in(line: str) -> Iterator[tuple[str, ...]]:
    """The words after each `rlctl` in a line of shell, without comments, pipes and redirections.

    A comment begins with `#`, or after a gap of two spaces. Raises ValueError for an unclosed quote.
    """
    start = _START.search(line)
    if start is None:
        return
    shown = _UP_TO_A_GAP.match(line, start.start())
    assert shown is not None
    text = _ANGLED.sub("STAND_IN", _DESCRIPTOR.sub("", line[: shown.end()]))
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    segment: list[str] = []
    for word in [*lexer, ";"]:
        if word and _OPERATORS.issuperset(word):
            yield from _command(segment)
            # The word after a redirection is a file name.
            segment = ["a file"] if word[0] in "<>" else []
            continue
        segment.append(word)
        for inner in _SUBSTITUTION.findall(word):
            yield from commands_in(inner)


def parse_line(words: Sequence[str], *, is_whole: bool = True) -> str | None:
    """What is wrong with the words after `rlctl`, or None. Unless `is_whole`, arguments may be missing."""
    asks_help = not _HELP.isdisjoint(words)
    try:
        _parse(root, None, [word for word in words if word not in _HELP], is_whole=is_whole and not asks_help)
    except click.UsageError as failure:
        return failure.format_message()
    return None


def _command(segment: Sequence[str]) -> Iterator[tuple[str, ...]]:
    words = list(segment)
    while words and (words[0] in _BEFORE or _ASSIGNMENT.fullmatch(words[0])):
        del words[0]
    if words and words[0] == "rlctl":
        yield tuple(words[1:])


def _parse(command: click.Command, parent: click.Context | None, words: list[str], *, is_whole: bool) -> None:
    context = click.Context(command, parent=parent, info_name=command.name, **command.context_settings)
    if not isinstance(command, click.Group):
        _parse_leaf(command, context, words, is_whole=is_whole)
        return
    try:
        command.parse_args(context, words)
    except click.exceptions.NoArgsIsHelpError as failure:
        if is_whole:
            raise click.UsageError("a command is missing", context) from failure
        return
    # The public name is deprecated without a successor; click's own completion uses this one, too.
    rest = [*context._protected_args, *context.args]
    if rest and not is_whole and _has_stand_in(rest[0]):
        return
    if rest:
        _name, found, left = command.resolve_command(context, rest)
        assert found is not None
        _parse(found, context, left, is_whole=is_whole)
    elif is_whole:
        raise click.UsageError("a command is missing", context)


def _parse_leaf(command: click.Command, context: click.Context, words: list[str], *, is_whole: bool) -> None:
    parser = command.make_parser(context)
    try:
        values, left, _order = parser.parse_args(args=list(words))
    except click.BadOptionUsage:
        if is_whole:
            raise
        # A sentence may name an option without its value.
        values, left, _order = parser.parse_args(args=[*words, "STAND_IN"])
    for param in command.get_params(context):
        if not param.expose_value or _has_stand_in(values.get(param.name or "")):
            continue
        try:
            param.handle_parse_result(context, values, [])
        except click.MissingParameter:
            if is_whole:
                raise
    if left:
        raise click.UsageError(f"unexpected: {' '.join(left)}", context)


def _has_stand_in(value: object) -> bool:
    match value:
        case str():
            return bool(_STAND_IN.search(value) if "$" in value else _STAND_IN.match(value))
        case list() | tuple():
            return any(map(_has_stand_in, value))
        case _:
            return False
