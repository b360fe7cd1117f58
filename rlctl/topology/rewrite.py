"""Change settings in the text of a topology file, and keep every other byte. Pure."""

from collections.abc import Mapping

import yaml

from rlctl.errors import InvalidFile, Refused
from rlctl.topology.load import load_topology
from rlctl.topology.model import Topology


def rewrite(text: str, path: str, changes: Mapping[tuple[str, str], str], wanted: Topology) -> str:
    """The text with each (section, key) set to its value. Raises Refused if the result does not load as `wanted`."""
    try:
        changed = text
        for (section, key), value in changes.items():
            changed = _with_setting(changed, section, key, value)
        if load_topology(changed.encode("utf-8"), path) == wanted:
            return changed
    except (InvalidFile, yaml.YAMLError) as failure:
        # In some forms of YAML, an inserted setting makes the text invalid.
        raise _not_writable(path, changes) from failure
    raise _not_writable(path, changes)


def _not_writable(path: str, changes: Mapping[tuple[str, str], str]) -> Refused:
    settings = ", ".join(f"{section}.{key}: {value}" for (section, key), value in changes.items())
    return Refused(
        f"{path}: rlctl cannot write the settings into YAML of this form", hint=f"edit the file by hand: {settings}"
    )


def _with_setting(text: str, section: str, key: str, value: str) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    settings = _find(root, section)
    if settings is None:
        return _insert(text, root, section, f"{{{key}: {value}}}", at_end=True)
    if not isinstance(settings, yaml.MappingNode):
        # The section is empty, or null in one of YAML's spellings.
        gap = "" if settings.end_mark.index > settings.start_mark.index else " "
        return _replace(text, settings, f"{gap}{{{key}: {value}}}")
    setting = _find(settings, key)
    if setting is None:
        return _insert(text, settings, key, value, at_end=False)
    quote = setting.style if isinstance(setting, yaml.ScalarNode) and setting.style in {"'", '"'} else ""
    return _replace(text, setting, f"{quote}{value}{quote}")


def _find(mapping: yaml.MappingNode, key: str) -> yaml.Node | None:
    return next((value for name, value in mapping.value if name.value == key), None)


def _replace(text: str, node: yaml.Node, value: str) -> str:
    return text[: node.start_mark.index] + value + text[node.end_mark.index :]


def _insert(text: str, mapping: yaml.MappingNode, key: str, value: str, *, at_end: bool) -> str:
    """The text with a further entry in `mapping`, in the style of the mapping."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if mapping.flow_style:
        at = mapping.start_mark.index + 1
        comma = "" if not mapping.value else "," if text[at].isspace() else ", "
        return f"{text[:at]}{key}: {value}{comma}{text[at:]}"
    first = mapping.value[0][0].start_mark
    indent = " " * first.column
    if at_end:
        end = mapping.end_mark.index
        gap = "" if text[:end].endswith("\n") else newline
        return f"{text[:end]}{gap}{indent}{key}: {value}{newline}{text[end:]}"
    return f"{text[: first.index]}{key}: {value}{newline}{indent}{text[first.index :]}"
