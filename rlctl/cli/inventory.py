"""rlctl inventory: prints the fleet's hosts as an Ansible inventory."""

import json
from collections.abc import Mapping

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.errors import NotFound, UsageFault
from rlctl.render import inventory as render
from rlctl.topology.model import TargetName, Topology
from rlctl.topology.nodes import host_name


@click.command(cls=HelpCommand)
@click.option("--list", "all_hosts", is_flag=True, help="Print all hosts and groups, as a dynamic inventory does.")
@click.option("--host", metavar="H", help="Host to print the variables of, as a dynamic inventory does.")
@with_app
def inventory(app: App, all_hosts: bool, host: str | None) -> None:
    """Print the Ansible inventory of a fleet on hosts.

    The inventory contains no secrets. Ansible passes --list or --host to the script of a dynamic inventory.

    Examples:
      rlctl inventory > hosts.yml
      ansible-playbook -i hosts.yml playbooks/site.yml
    """
    if all_hosts and host is not None:
        raise UsageFault("--list and --host exclude each other", hint="see `rlctl inventory --help`")
    topology = app.topology()
    if topology.target is not TargetName.HOSTS:
        raise NotFound(
            f"fleet {topology.name} has no hosts: its target is {topology.target}",
            hint="write `target: hosts` and list the machines under `hosts`",
        )
    if host is not None:
        document: Mapping[str, object] = _of_host(topology, host)
    else:
        form = render.inventory if all_hosts else render.static_inventory
        document = form(topology, app.file.absolute())
    app.output.verbatim(json.dumps(document, indent=2))


def _of_host(topology: Topology, name: str) -> dict[str, object]:
    for host in topology.hosts:
        if host_name(host) == name:
            return render.host_variables(topology, host)
    names = ", ".join(host_name(host) for host in topology.hosts)
    raise NotFound(f"fleet {topology.name} has no host {name}", hint=f"its hosts: {names}")
