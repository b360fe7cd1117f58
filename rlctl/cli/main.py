"""The root command: imports commands when they run, and turns every failure into an exit code."""

import errno
import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from rlctl import __version__
from rlctl.cli.help import HelpGroup
from rlctl.cli.options import common_options
from rlctl.cli.output import write_stderr
from rlctl.cli.shortage import shortage
from rlctl.cli.streams import ReaderGone
from rlctl.errors import Exit, NotFound, ResourceLimit, RlctlError, Unreachable

# Command -> module:function and the first line of its help, so that `rlctl --help` imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("rlctl.cli.init:init", "Write a commented topology file."),
    "deploy": ("rlctl.cli.deploy:deploy", "Build, change or repair the fleet to match its topology."),
    "status": ("rlctl.cli.status:status", "Show nodes, roles, slots, lag and findings of the fleet."),
    "doctor": ("rlctl.cli.doctor:doctor", "Check the machines and the fleet, with evidence and fixes."),
    "failover": ("rlctl.cli.failover:failover", "Move the primary of a shard to its best replica."),
    "scripts": ("rlctl.cli.scripts:scripts", "Load, check and watch the Lua limiter scripts of the fleet."),
    "rules": ("rlctl.cli.rules.group:rules", "Change the fleet's limits without changing its services."),
    "limit": ("rlctl.cli.limit:limit", "Make one decision and show its response headers."),
    "fence": ("rlctl.cli.fence:fence", "Make a data node refuse every write until it is unfenced."),
    "unfence": ("rlctl.cli.fence:unfence", "Let a fenced data node accept writes again."),
    "failover-drill": (
        "rlctl.cli.drill.group:failover_drill",
        "Break a throw-away twin of the fleet and measure the loss.",
    ),
    "runbook": ("rlctl.cli.runbook.group:runbook", "Show, run or rehearse the pages for incidents."),
    "bench": ("rlctl.cli.bench:bench", "Measure speed and accuracy of the scripts on this fleet."),
    "capacity": ("rlctl.cli.capacity.group:capacity", "Predict, plan and measure the memory that users need."),
    "resize": ("rlctl.cli.resize:resize", "Raise the memory of every data node."),
    "env": ("rlctl.cli.env:env", "Print connection settings, including the password."),
    "history": ("rlctl.cli.history:history", "List the operations that this machine ran on the fleet."),
    "destroy": ("rlctl.cli.destroy:destroy", "Stop and remove the fleet's processes, data and secrets."),
    "secrets": ("rlctl.cli.secrets:secrets", "Export or import the secrets of the fleet."),
    "unlock": ("rlctl.cli.unlock:unlock", "Show which operation holds the fleet's lock, and break it."),
    "inventory": ("rlctl.cli.inventory:inventory", "Print the Ansible inventory of a fleet on hosts."),
    "render": ("rlctl.cli.render:render", "Print the configuration files that rlctl writes."),
    "schema": ("rlctl.cli.schema:schema", "Print JSON Schemas for editors and other programs."),
    "completion": ("rlctl.cli.completion:completion", "Print the completion script for a shell."),
    "demo": ("rlctl.cli.demo:demo", "Show deploy, decisions and drills on a throw-away fleet."),
}
# The errors of a full disk, a quota, a file that is too large, and a failing device.
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
EXIT_HELP = """\b
Exit codes:
  0 done, healthy, no change        9 declined, or no terminal
  1 a bug in rlctl                 10 changes or drift found
  2 wrong usage                    11 degraded
  3 a file is invalid              12 critical
  4 authentication or TLS refused  13 partly done
  5 not found                      14 drill or rehearsal failed
  6 unreachable, or tool missing   15 done, but a check failed
  7 timeout                        16 drill inconclusive
  8 refused by a guard            129 terminal closed (SIGHUP)
                                  130 interrupted (143 terminated)"""


class LazyGroup(HelpGroup):
    """A group that imports a command only when it runs."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        # On a BrokenPipeError, click would exit silently with 1, so a ConnectionError is raised in its place. The
        # reader of stdout is not the process that ended, because writes to stdout raise ReaderGone.
        try:
            return super().invoke(ctx)
        except BrokenPipeError as failure:
            raise ConnectionError("a process that rlctl writes to has ended") from failure

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for a mistyped one."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            from difflib import get_close_matches  # noqa: PLC0415  only a mistake needs it

            near = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_module, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EXIT_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rlctl")
@common_options
def root(**_options: Any) -> None:  # noqa: ANN401
    """Operate Redis fleets that hold rate-limit state.

    Examples:
      rlctl init                # write topology.yaml
      rlctl deploy              # build or repair the fleet
      rlctl status --watch
      rlctl demo                # try rlctl on a throw-away fleet
    """


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code. Never raises."""
    try:
        code = root.main(list(argv), prog_name="rlctl", standalone_mode=False)
        return int(code or 0)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except ReaderGone:
        return Exit.OK
    except (click.ClickException, click.Abort, KeyboardInterrupt, RlctlError) as failure:
        return _report(argv, failure)
    except Exception as failure:  # noqa: BLE001  a bug: the user gets a report, not a traceback
        named = shortage(failure) or _unwritable(failure) or _not_installed(failure)
        return _report(argv, named) if named else _report_bug(argv, failure)


def _not_installed(failure: Exception) -> RlctlError | None:
    # A service may have installed click for itself, and rlctl without the extra `operator`. The command line then
    # starts, but the import of another package of the extra fails.
    if isinstance(failure, ModuleNotFoundError) and failure.name and not failure.name.startswith("rlctl"):
        return NotFound(f"the package {failure.name} is not installed", hint="pip install 'rlctl[operator]'")
    return None


def _unwritable(failure: Exception) -> RlctlError | None:
    if isinstance(failure, OSError) and failure.errno in _UNWRITABLE:
        return Unreachable(
            f"cannot write {failure.filename or 'a file'}: {failure.strerror}",
            hint="free disk space and run the command again",
        )
    return None


def _report(argv: Sequence[str], failure: BaseException) -> int:
    """Print an expected failure and return its exit code."""
    match failure:
        case RlctlError():
            return _print_error(argv, failure.exit_code, failure.code, failure.message, failure.hint)
        case click.exceptions.NoArgsIsHelpError() if not _wants_json(argv):
            return _show_help(failure.format_message())
        case click.exceptions.NoArgsIsHelpError():
            return _print_error(argv, Exit.USAGE, "usage", "a command is missing", "see `rlctl --help`")
        case click.UsageError():
            return _print_error(argv, Exit.USAGE, "usage", failure.format_message(), _usage_hint(failure))
        case click.ClickException():
            return _print_error(argv, Exit.USAGE, "usage", failure.format_message(), "see `rlctl --help`")
        case _:
            return _print_error(argv, Exit.INTERRUPTED, "interrupted", "interrupted", "run the same command again")


def _report_bug(argv: Sequence[str], failure: Exception) -> int:
    from rlctl.cli.bug_report import write_bug_report  # noqa: PLC0415  only a bug needs it

    return _print_error(argv, Exit.BUG, "bug", *write_bug_report(failure))


def _show_help(text: str) -> int:
    write_stderr(text)
    return Exit.USAGE


def _usage_hint(failure: click.UsageError) -> str:
    return f"see `{failure.ctx.command_path} --help`" if failure.ctx else "see `rlctl --help`"


def _print_error(argv: Sequence[str], code: int, name: str, message: str, hint: str) -> int:
    # On a ResourceLimit, memory may have run out. Reading the runbooks would need more memory, so the message names no
    # runbook.
    page = None if name == ResourceLimit.code else _runbook(name)
    if _wants_json(argv):
        text = json.dumps(
            {"error": {"code": name, "message": message, "hint": hint, **({"runbook": page} if page else {})}}
        )
    else:
        text = f"rlctl: {message}" + (f"\n  hint: {hint}" if hint else "")
        text += f"\n  runbook: `rlctl runbook show {page}`" if page else ""
    write_stderr(text)
    return code


def _runbook(code: str) -> str | None:
    """Return the id of the runbook for an error; None without a runbook, or if the runbooks are unreadable."""
    from rlctl.runbooks.answers import page_for_error  # noqa: PLC0415  only a failure needs it

    try:
        return page_for_error(code)
    except (RlctlError, ValueError):
        return None


def _wants_json(argv: Sequence[str]) -> bool:
    """Whether -o json was given. Reads the raw arguments, because click may have failed to parse them."""
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
