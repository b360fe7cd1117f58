"""rlctl render: prints configuration files with hidden secrets, or stages a host's files for the playbooks."""

from pathlib import Path

import click

from rlctl.assets import asset_folder
from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpGroup
from rlctl.errors import Refused, UsageFault
from rlctl.operations.staging import StagingMode, stage_host
from rlctl.render.acl import node_acl
from rlctl.render.compose import compose_file
from rlctl.render.redis_conf import NodeFiles, static_conf
from rlctl.render.sentinel_conf import sentinel_static_conf
from rlctl.scripts.release import load_release
from rlctl.secrets import FleetSecrets, Secret, User
from rlctl.system.files import read_text
from rlctl.targets.server_program import parse_version
from rlctl.topology.model import TargetName, Topology
from rlctl.topology.nodes import all_nodes

_HIDDEN = "not-shown"
_SINCE = (7, 2)


@click.group(cls=HelpGroup)
def render() -> None:
    """Print the configuration files that rlctl writes.

    Examples:
      rlctl render config
      rlctl render compose
    """


@render.command()
@click.option("--stage", is_flag=True, help="Write the files of one host, with secrets, for the playbooks to copy.")
@click.option("--host", metavar="H", help="Host to write the files of; needs --stage.")
@click.option("--server-version", metavar="V", help="Version of the host's server, such as 8.0.2 [newest known].")
@click.option(
    "--check", is_flag=True, help="For Ansible's check mode: generate missing secrets, but do not store them."
)
@click.option("--placed", is_flag=True, help="The fleet has nodes on its hosts: missing secrets are an error.")
@click.option("--unseen", is_flag=True, help="Not all hosts were reached: missing secrets are an error.")
@with_app
def config(
    app: App, stage: bool, host: str | None, server_version: str | None, check: bool, placed: bool, unseen: bool
) -> None:
    """Print every node's configuration and users without passwords.

    With --stage and --host, writes the files of one host with its secrets. The roles in playbooks/ use these options.

    Examples:
      rlctl render config | less
      rlctl render config --stage --host h1 -o json
    """
    topology = app.topology()
    if stage and host:
        _stage(app, topology, host, server_version, StagingMode(rehearsal=check, placed=placed, unseen=unseen))
    elif stage or host or server_version or check or placed or unseen:
        raise UsageFault("--stage and --host must be given together", hint="see `rlctl render config --help`")
    else:
        _show(app, topology)


def _stage(app: App, topology: Topology, host: str, server_version: str | None, occasion: StagingMode) -> None:
    version = parse_version(server_version) if server_version else None
    if version == ():
        raise UsageFault(f"--server-version: {server_version!r} is not a version", hint="write it as 8.0.2")
    staged = stage_host(topology, app.home, host, version, occasion)
    if app.output.as_json:
        nodes = {name: list(files) for name, files in staged.nodes.items()}
        folder = str(staged.folder)
        app.output.result({"schema": "rlctl.render-config/1", "name": topology.name, "folder": folder, "nodes": nodes})
        return
    for name, files in staged.nodes.items():
        app.output.text(f"{staged.folder / name}: {', '.join(files)}")


def _show(app: App, topology: Topology) -> None:
    commands = load_release().commands
    hidden = FleetSecrets(
        name=topology.name,
        fleet_id="0" * 40,
        passwords={user: Secret(_HIDDEN) for user in User},
        authority=None,
        services={service: Secret(_HIDDEN) for service in topology.security.services},
    )
    files = {}
    for spec in all_nodes(topology):
        folder = Path("/") / topology.name / spec.name
        conf = sentinel_static_conf if spec.is_sentinel else static_conf
        files[f"{spec.name}/static.conf"] = conf(topology, spec, NodeFiles(folder=folder), hidden)
        if topology.security.acl:
            files[f"{spec.name}/users.acl"] = node_acl(spec, hidden, _SINCE, commands).replace(
                Secret(_HIDDEN).sha256(), _HIDDEN
            )
    if app.output.as_json:
        app.output.result({"schema": "rlctl.render-config/1", "name": topology.name, "files": files})
        return
    for name, text in files.items():
        app.output.verbatim(f"# {name}\n{text}")


@render.command()
@with_app
def compose(app: App) -> None:
    """Print the compose file of a Docker fleet.

    Needs no Docker engine. With `docker.subnet: auto`, the file shows the addresses of the first candidate network.
    If that network is taken, deploy uses the next candidate.

    Examples:
      rlctl render compose > compose.yaml
    """
    topology = app.topology()
    if topology.target is not TargetName.DOCKER:
        raise Refused(
            f"fleet {topology.name} has no compose file: its target is {topology.target}",
            hint="compose files are for `target: docker`",
        )
    text = compose_file(topology, read_text(asset_folder("compose") / "node.yaml") or "")
    if app.output.as_json:
        app.output.result({"schema": "rlctl.render-compose/1", "name": topology.name, "file": text})
    else:
        app.output.verbatim(text.rstrip())
