"""A finding: one thing that is wrong with a fleet, and its severity. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from rlctl.observe.model import NodeFacts, ReplicationLink


class Severity(StrEnum):
    """DEGRADED: requests are decided, but redundancy is lost. CRITICAL: decisions fail, or counts may be lost now."""

    DEGRADED = "degraded"
    CRITICAL = "critical"


class State(StrEnum):
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    CRITICAL = "critical"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong; `subject` is the name of a node, `shard N` or `fleet`."""

    code: str
    severity: Severity
    subject: str
    text: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "severity": self.severity, "subject": self.subject, "text": self.text}


def degraded(code: str, subject: str, text: str) -> Finding:
    return Finding(code=code, severity=Severity.DEGRADED, subject=subject, text=text)


def critical(code: str, subject: str, text: str) -> Finding:
    return Finding(code=code, severity=Severity.CRITICAL, subject=subject, text=text)


def listed(names: Iterable[str]) -> str:
    """Join the names in order; after the fourth, count the rest (`and 3 more`)."""
    listed = sorted(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")


def unlinked(replicas: Iterable[NodeFacts]) -> Iterator[Finding]:
    """Yield a finding for each replica whose link to its primary is down."""
    for node in replicas:
        if node.link is ReplicationLink.DOWN:
            yield degraded("link-down", node.name, f"{node.name} has no link to its primary")
