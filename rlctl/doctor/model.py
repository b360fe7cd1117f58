"""The result of a check: its subject, its severity, the evidence and the fix."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class CheckSeverity(StrEnum):
    """The severity of a check's result. Unknown means that the fact could not be read."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


_URGENCY: Final = (CheckSeverity.CRITICAL, CheckSeverity.WARNING, CheckSeverity.UNKNOWN, CheckSeverity.OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check with its evidence. `fix` is a command or an action; it is empty for severity ok."""

    name: str
    severity: CheckSeverity
    subject: str
    evidence: str
    fix: str
    runbook: str | None = None

    def to_json(self) -> dict[str, str | None]:
        return {
            "name": self.name,
            "severity": self.severity.value,
            "subject": self.subject,
            "evidence": self.evidence,
            "fix": self.fix,
            "runbook": self.runbook,
        }


def passed(name: str, subject: str, evidence: str) -> Check:
    """A check without a problem."""
    return Check(name=name, severity=CheckSeverity.OK, subject=subject, evidence=evidence, fix="")


def warned(name: str, subject: str, evidence: str, fix: str) -> Check:
    """A check with a risk that causes no failure yet."""
    return Check(name=name, severity=CheckSeverity.WARNING, subject=subject, evidence=evidence, fix=fix)


def failed(name: str, subject: str, evidence: str, fix: str) -> Check:
    """A check with a problem that causes a failure now."""
    return Check(name=name, severity=CheckSeverity.CRITICAL, subject=subject, evidence=evidence, fix=fix)


def unread(name: str, subject: str, evidence: str, fix: str) -> Check:
    """A check whose fact could not be read; `fix` says how to read it by hand."""
    return Check(name=name, severity=CheckSeverity.UNKNOWN, subject=subject, evidence=evidence, fix=fix)


def sort_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Sort by urgency, most urgent first, then by name and subject."""
    return tuple(sorted(checks, key=lambda check: (_URGENCY.index(check.severity), check.name, check.subject)))
