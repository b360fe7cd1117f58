"""A check: what was looked at, how it stands, what was seen and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """How a check stands; unknown means that the fact behind it could not be read."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


_URGENCY: Final = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN, Severity.OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check with its evidence; `fix` is a command or an action, and empty when all is well."""

    name: str
    severity: Severity
    subject: str
    evidence: str
    fix: str
    runbook: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """The check as JSON, with stable keys."""
        return {
            "name": self.name,
            "severity": self.severity.value,
            "subject": self.subject,
            "evidence": self.evidence,
            "fix": self.fix,
            "runbook": self.runbook,
        }


def passed(name: str, subject: str, evidence: str) -> Check:
    """A check that found nothing to do."""
    return Check(name=name, severity=Severity.OK, subject=subject, evidence=evidence, fix="")


def warned(name: str, subject: str, evidence: str, fix: str) -> Check:
    """A check that found something that will hurt one day."""
    return Check(name=name, severity=Severity.WARNING, subject=subject, evidence=evidence, fix=fix)


def failed(name: str, subject: str, evidence: str, fix: str) -> Check:
    """A check that found something that hurts now."""
    return Check(name=name, severity=Severity.CRITICAL, subject=subject, evidence=evidence, fix=fix)


def unread(name: str, subject: str, evidence: str, fix: str) -> Check:
    """A check whose fact could not be read; `fix` says how to look by hand."""
    return Check(name=name, severity=Severity.UNKNOWN, subject=subject, evidence=evidence, fix=fix)


def sort_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The most urgent first, then by name and subject."""
    return tuple(sorted(checks, key=lambda check: (_URGENCY.index(check.severity), check.name, check.subject)))
