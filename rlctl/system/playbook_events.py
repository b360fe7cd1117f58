"""What a playbook did, as its events tell: one JSON object a line. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What became of a task on one host; `node` where it tells of one node alone."""

    host: str
    task: str
    status: str
    message: str | None = None
    node: str | None = None
    # Directives that the host's server does not start with, each with its error.
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_failure(self) -> bool:
        """Whether it failed, or the host could not be reached."""
        return self.status in {"failed", "unreachable"}

    @property
    def reason(self) -> str:
        """Why it failed, for people."""
        if self.status == "unreachable":
            return f"cannot be reached: {self.message or 'no reason was given'}"
        return f"{self.task}: {self.message or 'failed; its message may hold secrets and is not shown'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The playbook came to its own end; how many failures each host had, unreachable counted."""

    failures: Mapping[str, int]


Event = TaskResult | End


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookRun:
    """The events of a run that ended by itself."""

    results: tuple[TaskResult, ...]
    failures: Mapping[str, int]

    def changes(self, host: str) -> tuple[str, ...]:
        """The tasks that changed the host, or would in check mode."""
        own = (one for one in self.results if one.host == host and one.status == "changed")
        return tuple(dict.fromkeys(one.task for one in own))

    def messages(self, host: str) -> tuple[str, ...]:
        """What the playbook had to say of a host where nothing failed."""
        return tuple(one.message for one in self.results if one.host == host and one.status == "ok" and one.message)

    def problem(self, host: str) -> str | None:
        """Why the host did not get through, in the words of its last failure; None when it did."""
        if host not in self.failures:
            return "the playbook did not come to it"
        if not self.failures[host]:
            return None
        own = [one.reason for one in self.results if one.host == host and one.is_failure]
        return own[-1] if own else "it failed, and no task tells why"

    def refused(self, host: str) -> Mapping[str, str]:
        """The directives that the host's server does not start with, each with its error."""
        return {name: error for one in self.results if one.host == host for name, error in one.refused.items()}

    def node_problem(self, host: str, node: str) -> str | None:
        """The same for one node: its own failure first, then its host's; none where it is told to be well."""
        told = [one for one in self.results if one.node == node]
        if told:
            return told[-1].reason if told[-1].is_failure else None
        return self.problem(host)


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """The events that matter here; a line that is none of ours is passed over."""
    for line in lines:
        try:
            event = _event(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if event is not None:
            yield event


def _event(document: dict[str, Any]) -> Event | None:
    match document["event"]:
        case "result":
            item = document.get("item")
            return TaskResult(
                host=str(document["host"]),
                # Ansible puts the role before a task's name, which says all by itself.
                task=str(document["task"]).rpartition(" : ")[2] + (f" ({item})" if item else ""),
                status=str(document["status"]),
                message=document.get("message"),
                node=document.get("node"),
                refused={str(name): str(error) for name, error in document.get("refused", {}).items()},
            )
        case "end":
            stats = document["stats"].items()
            return End(failures={host: int(one["failures"]) + int(one["unreachable"]) for host, one in stats})
        case _:
            return None
