"""Reads from the log of one start whether the server is ready, or why it ended. Pure."""

import re
from dataclasses import dataclass

_READY = re.compile(r"ready to accept connections", re.IGNORECASE)
# `*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***`, then the line's number, the line itself after `>>>`, and the reason.
_CONFIG = "FATAL CONFIG FILE ERROR"
_REFUSED_LINE = re.compile(r">>> '([^\s']+)(.*)'")
# Directives whose value is or contains a password.
_PASSWORDS = re.compile(r"requirepass|masterauth|primaryauth|user|sentinel|tls-.*-pass")
_COMPLAINT = re.compile(
    r"(?i)fatal|error|fail|warning: could not|can't|cannot|denied|invalid|bad |abort|exiting|out of memory"
)
# Advice that a server prints at every start, such as on vm.overcommit_memory.
_ADVICE = re.compile(r"# WARNING:? ")
_STAMP = re.compile(r"^\d+:[A-Z] \d{1,2} \w{3} \d{4} [\d:.]+ [#*.-] ")
_CRASH_REPORT = "BUG REPORT START"
_SHOWN_COMPLAINTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigError:
    """A directive that the server refuses, with its reason."""

    directive: str
    reason: str


def is_ready(log: str) -> bool:
    """Whether the log shows that the server accepted connections. At log level `warning` a log never shows that."""
    return _READY.search(log) is not None


def config_error(log: str) -> ConfigError | None:
    """The last directive that the server refused; None if the log shows no refused directive."""
    block = _config_block(_lines(log))
    found = [(number, refused) for number, line in enumerate(block) if (refused := _REFUSED_LINE.fullmatch(line))]
    if not found:
        return None
    number, refused = found[-1]
    return ConfigError(directive=refused.group(1).lower(), reason=" ".join(block[number + 1 :]) or "no reason given")


def last_error(log: str) -> str:
    """The server's last error on one line: the block about a refused directive, else its last error lines."""
    lines = _lines(log)
    if block := _config_block(lines):
        return " / ".join(map(_without_password, block))
    found = [line for line in lines if _COMPLAINT.search(line) and not _ADVICE.search(line)]
    return " / ".join((found or lines)[-_SHOWN_COMPLAINTS:])


def without_stamps(error: str) -> str:
    """The error text of `last_error` without each line's pid and time."""
    return " / ".join(_STAMP.sub("", line) for line in error.split(" / "))


def _lines(log: str) -> list[str]:
    """The log's lines before a crash report, whose addresses and registers do not help an operator."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[: next((number for number, line in enumerate(lines) if _CRASH_REPORT in line), None)]


def _config_block(lines: list[str]) -> list[str]:
    starts = [number for number, line in enumerate(lines) if _CONFIG in line]
    return lines[starts[-1] :] if starts else []


def _without_password(line: str) -> str:
    refused = _REFUSED_LINE.fullmatch(line)
    if refused is None or not _PASSWORDS.fullmatch(refused.group(1).lower()):
        return line
    return f">>> '{refused.group(1)} (value not shown)'"
