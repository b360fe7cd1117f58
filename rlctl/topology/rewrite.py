"""Changes settings in the text of a topology file and leaves every comment where it is. Pure."""

from collections.abc import Mapping

import yaml

from rlctl.errors import Refused
from rlctl.topology.load import load_topology
from rlctl.topology.model import Topology

_HINT = "edit the file by hand: {}"


def rewrite(text: str, path: str, changes: Mapping[tuple[str, str], str], wanted: Topology) -> str:
    """The text with (section, key) set to these values; Refused where it then does not say what is wanted."""
    changed = text
    for (section, key), value in changes.items():
        changed = _with_setting(changed, section, key, value)
    if load_topology(changed.encode("utf-8"), path) != wanted:
        settings = ", ".join(f"{section}.{key}: {value}" for (section, key), value in changes.items())
        raise Refused(f"{path}: its form leaves no place to write the settings", hint=_HINT.format(settings))
    return changed


def _with_setting(text: str, section: str, key: str, value: str) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    settings = _find(root, section)
    if settings is None:
        return _insert(text, root, section, f"{{{key}: {value}}}", at_end=True)
    name, found = settings
    if not isinstance(found, yaml.MappingNode):
        # The section is there and empty.
        colon = text.index(":", name.end_mark.index) + 1
        return f"{text[:colon]} {{{key}: {value}}}{text[colon:]}"
    setting = _find(found, key)
    if setting is None:
        return _insert(text, found, key, value, at_end=False)
    old = setting[1]
    return text[: old.start_mark.index] + value + text[old.end_mark.index :]


def _find(mapping: yaml.MappingNode, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    return next(((name, value) for name, value in mapping.value if name.value == key), None)


def _insert(text: str, mapping: yaml.MappingNode, key: str, value: str, *, at_end: bool) -> str:
    """A further entry, in the style of the mapping that it joins."""
    if mapping.flow_style:
        at = mapping.start_mark.index + 1
        return f"{text[:at]}{key}: {value}{', ' if mapping.value else ''}{text[at:]}"
    if at_end:
        return f"{text}{'' if text.endswith(chr(10)) else chr(10)}{key}: {value}\n"
    first = mapping.value[0][0].start_mark
    return f"{text[: first.index]}{key}: {value}\n{' ' * first.column}{text[first.index :]}"
