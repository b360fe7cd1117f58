"""Write a topology as the text of a topology file. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from rlctl.files.table import SettingsSection
from rlctl.topology.model import Topology
from rlctl.topology.table import HOSTS, SECTIONS, TOP


def topology_text(topology: Topology) -> str:
    """The topology as JSON, which is also YAML. `load_topology` reads it back as an equal topology."""
    document = _shown(TOP, topology)
    document |= {section.key: _shown(section, getattr(topology, section.key)) for section in SECTIONS}
    document |= {"redis": dict(topology.redis), "hosts": [_shown(HOSTS, host) for host in topology.hosts]}
    return json.dumps(document, indent=2) + "\n"


def _shown(section: SettingsSection, part: object) -> dict[str, Any]:
    values: Mapping[str, object] = {field.key: getattr(part, field.attribute) for field in section.fields}
    return {field.key: field.type.show(values[field.key]) for field in section.fields if values[field.key] is not None}
