"""One thing that is not as it should be, and how grave it is. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from rlctl.observe.model import NodeFacts, ReplicationLink


class Severity(StrEnum):
    """Degraded: it works and has less to lose. Critical: decisions fail, or counts are in danger now."""

    DEGRADED = "degraded"
    CRITICAL = "critical"


class State(StrEnum):
    """The fleet in one word."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    CRITICAL = "critical"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be; `subject` is a node, a shard or the fleet."""

    code: str
    severity: Severity
    subject: str
    text: str

    def to_json(self) -> dict[str, str]:
        """As `status -o json` shows it."""
        return {"code": self.code, "severity": self.severity, "subject": self.subject, "text": self.text}


def degraded(code: str, subject: str, text: str) -> Finding:
    """A finding while the fleet works and has less to lose."""
    return Finding(code=code, severity=Severity.DEGRADED, subject=subject, text=text)


def critical(code: str, subject: str, text: str) -> Finding:
    """A finding while decisions fail, or counts are in danger."""
    return Finding(code=code, severity=Severity.CRITICAL, subject=subject, text=text)


def listed(names: Iterable[str]) -> str:
    """The first four names and how many more there are."""
    listed = sorted(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")


def unlinked(replicas: Iterable[NodeFacts]) -> Iterator[Finding]:
    """The replicas whose link to their primary is down."""
    for node in replicas:
        if node.link is ReplicationLink.DOWN:
            yield degraded("link-down", node.name, f"{node.name} has no link to its primary")
