"""Doctor: check the machines, the server program, the fleet and its files."""

import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rlctl.doctor.fleet_checks import FileFacts, fleet_checks
from rlctl.doctor.host_checks import host_checks
from rlctl.doctor.model import Check, failed, passed, sort_checks, unread
from rlctl.errors import RlctlError
from rlctl.execute.directives import check_directives
from rlctl.execute.session import FleetSession
from rlctl.files.mistakes import ImpossibleSettings
from rlctl.observe.model import Observed
from rlctl.operations.script_check import verify
from rlctl.plan.fence import is_fenced
from rlctl.system.files import read_own
from rlctl.system.host import read_host_facts
from rlctl.system.host_facts import HostFacts
from rlctl.system.trust import path_problem
from rlctl.topology.model import TargetName


def run_doctor(fleet: FleetSession, observed: Observed) -> tuple[Check, ...]:
    """Run every check of the machines and of the observed fleet; the most urgent results first."""
    return sort_checks(
        (
            *host_checks(fleet.topology, read_host_facts(fleet.home.root), _machines(fleet)),
            _server(fleet),
            *_directives(fleet),
            *_scripts(fleet, observed),
            *fleet_checks(fleet.desired(observed), observed, _files(fleet), fleet.clock.now()),
        )
    )


def _machines(fleet: FleetSession) -> Mapping[str, HostFacts | str]:
    found = fleet.target.machines().items()
    return {host: facts.message if isinstance(facts, RlctlError) else facts for host, facts in found}


def _scripts(fleet: FleetSession, observed: Observed) -> Iterator[Check]:
    """Run each script once as the runtime user: a missing permission shows only when a script runs."""
    # Skip fenced nodes: they refuse every script that writes, and another check reports fences.
    open_nodes = tuple(node for node in observed.nodes if not is_fenced(node))
    verdicts = verify(fleet, Observed(nodes=open_nodes))
    for node in sorted({verdict.node for verdict in verdicts}):
        wrong = [one for one in verdicts if one.node == node and one.evidence is not None]
        if wrong:
            evidence = f"{len(wrong)} scripts give wrong replies, first {wrong[0].script}: {wrong[0].evidence}"
            yield failed("scripts-run", node, evidence, "`rlctl deploy`; `rlctl scripts verify` shows each")
        else:
            yield passed(
                "scripts-run", node, f"{len(fleet.release.scripts)} scripts, run as user limiter, reply correctly"
            )


def _server(fleet: FleetSession) -> Check:
    try:
        evidence = fleet.target.check()
    except RlctlError as failure:
        return failed("server", "this machine", failure.message, failure.hint)
    return passed("server", "this machine", evidence)


def _directives(fleet: FleetSession) -> Iterator[Check]:
    """Check that the server starts with the section `redis`.

    On target hosts, nothing is checked here, because `deploy --dry-run` checks the section on the hosts.
    """
    topology = fleet.topology
    if not topology.redis or topology.target is TargetName.HOSTS:
        return
    try:
        is_checked = check_directives(fleet)
    except ImpossibleSettings as failure:
        yield failed("directives", "redis", failure.message.replace("\n", "; "), "correct them in the topology file")
    except RlctlError as failure:
        yield unread("directives", "redis", failure.message, failure.hint)
    else:
        if is_checked:
            yield passed("directives", "redis", f"the server starts with all {len(topology.redis)} directives")


def _files(fleet: FleetSession) -> FileFacts:
    root, name = fleet.folder.root, fleet.topology.name
    below = sorted(root.rglob("*")) if root.is_dir() else []
    paths = [path for path in below if not path.is_symlink()]
    found = [path_problem(path) for path in (root, *below, fleet.home.journal(name), fleet.home.lock(name))]
    return FileFacts(
        distrusted=tuple((one.evidence, one.fix) for one in found if one is not None),
        exposed=tuple(str(path.relative_to(root)) for path in paths if _is_exposed(path)),
        certificates=tuple(_certificates([path for path in paths if path.name == "tls.crt"])),
    )


def _certificates(paths: Sequence[Path]) -> Iterator[tuple[str, datetime]]:
    """The node and the expiry of each certificate."""
    if not paths:
        return
    from rlctl.system.tls import expires_at  # noqa: PLC0415  costs start-up time that only TLS pays

    for path in paths:
        if text := read_own(path):
            yield path.parent.name, expires_at(text)


def _is_exposed(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except FileNotFoundError:
        # The file has disappeared: servers replace their files while they run.
        return False
