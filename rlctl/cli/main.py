"""The root command: finds commands lazily, and turns every ending into one exit code."""

import errno
import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from rlctl import __version__
from rlctl.cli.options import common_options
from rlctl.cli.output import complain
from rlctl.cli.shortage import shortage
from rlctl.cli.streams import ReaderGone
from rlctl.errors import Exit, ResourceLimit, RlctlError, Unreachable

# Name -> module:function and the help line, so that `rlctl --help` imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("rlctl.cli.init:init", "Write a commented topology file."),
    "deploy": ("rlctl.cli.deploy:deploy", "Bring the fleet to its topology; repeat at will."),
    "status": ("rlctl.cli.status:status", "What is there against what should be."),
    "doctor": ("rlctl.cli.doctor:doctor", "Preflight and health checks, with evidence and fixes."),
    "failover": ("rlctl.cli.failover:failover", "Move a shard's primary to its best replica, safely or by force."),
    "scripts": ("rlctl.cli.scripts:scripts", "The Lua limiter scripts: what every node holds of them."),
    "rules": ("rlctl.cli.rules.group:rules", "Limits as data: plan, apply, canary, roll back, explain."),
    "limit": ("rlctl.cli.limit:limit", "One decision, with the response headers it would give."),
    "fence": ("rlctl.cli.fence:fence", "Let a node refuse every write, until it is unfenced."),
    "unfence": ("rlctl.cli.fence:unfence", "Let a fenced node take writes again."),
    "failover-drill": ("rlctl.cli.drill.group:failover_drill", "Break a twin on purpose, and prove what is lost."),
    "runbook": ("rlctl.cli.runbook.group:runbook", "Incident pages: read them, follow them, try them."),
    "bench": ("rlctl.cli.bench:bench", "How fast and how exact the scripts are on this fleet."),
    "capacity": ("rlctl.cli.capacity.group:capacity", "Memory: the models, the truth, and the plan."),
    "resize": ("rlctl.cli.resize:resize", "More memory for every data node: edits the topology, applies it."),
    "env": ("rlctl.cli.env:env", "Connection settings for other programs; prints secrets."),
    "history": ("rlctl.cli.history:history", "Who did what to the fleet, when, with what outcome."),
    "destroy": ("rlctl.cli.destroy:destroy", "Stop and remove what rlctl made, nothing else."),
    "secrets": ("rlctl.cli.secrets:secrets", "Hand the fleet's secrets to another operator."),
    "unlock": ("rlctl.cli.unlock:unlock", "Show who holds the fleet's lock, and break it."),
    "inventory": ("rlctl.cli.inventory:inventory", "Ansible inventory of a fleet on hosts; holds no secret."),
    "render": ("rlctl.cli.render:render", "Show what would be written, for eyes and git."),
    "schema": ("rlctl.cli.schema:schema", "JSON Schemas for editors and other programs."),
    "completion": ("rlctl.cli.completion:completion", "Shell completion for bash, zsh and fish."),
    "demo": ("rlctl.cli.demo:demo", "Everything in one go on a throw-away local fleet."),
}
# A full disk, a quota, a failing device.
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
EXIT_HELP = """\b
Exit codes:
  0 done, healthy, no change        9 declined, or nobody to ask
  1 a bug in rlctl                 10 changes or drift present
  2 usage                          11 degraded
  3 a given file is invalid        12 critical
  4 authentication or TLS refused  13 partly done
  5 no such thing                  14 drill: not as expected
  6 unreachable, or tool missing   15 done, but the check failed
  7 timeout                        16 drill inconclusive
  8 refused by a guard            129 terminal closed (SIGHUP)
                                  130 interrupted (143 terminated)"""


class LazyGroup(click.Group):
    """A group that imports a command only when it runs."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """In the order in which an operator meets them."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        """Import the command's module."""
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        """Run the command. On a broken pipe click exits with 1 and no word; that of stdout is no BrokenPipeError."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as failure:
            raise ConnectionError("a process that rlctl writes to has ended") from failure

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A mistyped command gets the nearest one named."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            from difflib import get_close_matches  # noqa: PLC0415  only a mistake needs it

            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_where, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EXIT_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rlctl")
@common_options
def root(**_options: Any) -> None:  # noqa: ANN401
    """Operate the Redis fleets that hold rate-limit state.

    \b
    rlctl init                    write topology.yaml
    rlctl deploy                  build the fleet, or repair it
    rlctl status --watch          look at it
    rlctl demo                    see it all on a throw-away fleet
    """


def run(argv: Sequence[str]) -> int:
    """Run one command line; nothing escapes but an exit code."""
    try:
        code = root.main(list(argv), prog_name="rlctl", standalone_mode=False)
        return int(code or 0)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except ReaderGone:
        return Exit.OK
    except (click.ClickException, click.Abort, KeyboardInterrupt, RlctlError) as failure:
        return _report(argv, failure)
    except Exception as failure:  # noqa: BLE001  the last line of defence: no traceback reaches a user
        named = shortage(failure) or _unwritable(failure)
        return _report(argv, named) if named else _report_bug(argv, failure)


def _unwritable(failure: Exception) -> RlctlError | None:
    if isinstance(failure, OSError) and failure.errno in _UNWRITABLE:
        return Unreachable(f"cannot write {failure.filename or 'a file'}: {failure.strerror}", hint="free space")
    return None


def _report(argv: Sequence[str], failure: BaseException) -> int:
    """Tell an expected failure; its kind decides the exit code."""
    match failure:
        case RlctlError():
            return _fail(argv, failure.exit_code, failure.code, failure.message, failure.hint)
        case click.exceptions.NoArgsIsHelpError() if not _wants_json(argv):
            return _show_help(failure.format_message())
        case click.exceptions.NoArgsIsHelpError():
            return _fail(argv, Exit.USAGE, "usage", "a command is missing", "see `rlctl --help`")
        case click.UsageError():
            return _fail(argv, Exit.USAGE, "usage", failure.format_message(), _usage_hint(failure))
        case click.ClickException():
            return _fail(argv, Exit.USAGE, "usage", failure.format_message(), "see `rlctl --help`")
        case _:
            return _fail(argv, Exit.INTERRUPTED, "interrupted", "interrupted", "the same command starts anew")


def _report_bug(argv: Sequence[str], failure: Exception) -> int:
    from rlctl.cli.bug_report import write_bug_report  # noqa: PLC0415  only a bug needs it

    return _fail(argv, Exit.BUG, "bug", *write_bug_report(failure))


def _show_help(text: str) -> int:
    complain(text)
    return Exit.USAGE


def _usage_hint(failure: click.UsageError) -> str:
    return f"see `{failure.ctx.command_path} --help`" if failure.ctx else "see `rlctl --help`"


def _fail(argv: Sequence[str], code: int, name: str, message: str, hint: str) -> int:
    # To read the pages takes memory.
    page = None if name == ResourceLimit.code else _runbook(name)
    if _wants_json(argv):
        text = json.dumps(
            {"error": {"code": name, "message": message, "hint": hint, **({"runbook": page} if page else {})}}
        )
    else:
        text = f"rlctl: {message}" + (f"\n  hint: {hint}" if hint else "")
        text += f"\n  runbook: `rlctl runbook show {page}`" if page else ""
    complain(text)
    return code


def _runbook(code: str) -> str | None:
    """The page that answers an error; a broken installation has none, and that is not the error to tell now."""
    from rlctl.runbooks.answers import page_for_error  # noqa: PLC0415  only a failure needs it

    try:
        return page_for_error(code)
    except (RlctlError, ValueError):
        return None


def _wants_json(argv: Sequence[str]) -> bool:
    """Read -o off the raw words: a usage error comes before they are parsed."""
    words = list(argv)
    chosen = ""
    for position, word in enumerate(words):
        if word in {"-o", "--output"} and position + 1 < len(words):
            chosen = words[position + 1]
        elif word.startswith("--output="):
            chosen = word.partition("=")[2]
        elif word.startswith("-o") and len(word) > 2:
            chosen = word[2:]
    return chosen == "json"
