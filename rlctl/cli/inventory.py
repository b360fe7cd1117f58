"""rlctl inventory: the fleet's hosts as Ansible asks for them."""

import json

import click

from rlctl.cli.app import App, with_app
from rlctl.errors import NotFound, UsageFault
from rlctl.render import inventory as render
from rlctl.topology.model import TargetName, Topology
from rlctl.topology.nodes import host_name


@click.command()
@click.option("--list", "all_hosts", is_flag=True, help="All hosts and groups; what the bare command does, too.")
@click.option("--host", metavar="H", help="The variables of one host.")
@with_app
def inventory(app: App, all_hosts: bool, host: str | None) -> None:
    """Print the Ansible inventory of the topology: JSON in Ansible's own form, usable as a dynamic inventory.

    \b
    rlctl inventory > hosts.json
    ansible-playbook -i hosts.json playbooks/site.yml
    """
    if all_hosts and host is not None:
        raise UsageFault("--list and --host exclude each other", hint="see `rlctl inventory --help`")
    topology = app.topology()
    if topology.target is not TargetName.HOSTS:
        raise NotFound(
            f"fleet {topology.name} has no hosts: its target is {topology.target}",
            hint="write `target: hosts` and list the machines under `hosts`",
        )
    document = render.inventory(topology, app.file.absolute()) if host is None else _of_host(topology, host)
    app.output.text(json.dumps(document, indent=2))


def _of_host(topology: Topology, name: str) -> dict[str, object]:
    for host in topology.hosts:
        if host_name(host) == name:
            return render.host_variables(topology, host)
    names = ", ".join(host_name(host) for host in topology.hosts)
    raise NotFound(f"fleet {topology.name} has no host {name}", hint=f"its hosts: {names}")
