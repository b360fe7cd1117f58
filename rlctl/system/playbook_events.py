"""Events of a playbook run, one JSON object for each line, and their results by host and node. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """Result of a task on one host, or for one node of the host if `node` is set."""

    host: str
    task: str
    status: str
    message: str | None = None
    node: str | None = None
    # Directives that the host's server refuses, each with the server's error.
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_failure(self) -> bool:
        return self.status in {"failed", "unreachable"}

    @property
    def reason(self) -> str:
        """Why the task failed, for messages."""
        if self.status == "unreachable":
            return f"cannot be reached: {self.message or 'no reason was given'}"
        return f"{self.task}: {self.message or 'failed; its message may contain secrets and is not shown'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """End of the playbook, with the number of failures of each host. A failed connection counts as a failure."""

    failures: Mapping[str, int]


Event = TaskResult | End


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookRun:
    """The results of a run that reached the playbook's end."""

    results: tuple[TaskResult, ...]
    failures: Mapping[str, int]

    def changes(self, host: str) -> tuple[str, ...]:
        """Names of the tasks that changed the host, or in check mode would change it."""
        own = (one for one in self.results if one.host == host and one.status == "changed")
        return tuple(dict.fromkeys(one.task for one in own))

    def messages(self, host: str) -> tuple[str, ...]:
        """Texts that debug tasks printed for the host."""
        return tuple(one.message for one in self.results if one.host == host and one.status == "ok" and one.message)

    def problem(self, host: str) -> str | None:
        """Why the playbook failed on the host or did not run there; None if it succeeded."""
        if host not in self.failures:
            return "the playbook did not run on it"
        if not self.failures[host]:
            return None
        own = [one.reason for one in self.results if one.host == host and one.is_failure]
        return own[-1] if own else "it failed, and no task reported why"

    def refused(self, host: str) -> Mapping[str, str]:
        """The directives that the host's server refuses, each with the server's error."""
        return {name: error for one in self.results if one.host == host for name, error in one.refused.items()}

    def node_problem(self, host: str, node: str) -> str | None:
        """The reason of the node's last task if that failed; None if it succeeded.

        If no task reported on the node, the result is `problem` of its host.
        """
        own = [one for one in self.results if one.node == node]
        if own:
            return own[-1].reason if own[-1].is_failure else None
        return self.problem(host)


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """Parse each line that is a known event, and skip other lines."""
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
                # Remove the role's name, which Ansible puts before the task's name: the task's name is clear without
                # it.
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
