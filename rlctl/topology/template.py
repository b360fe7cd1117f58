"""The commented file that `rlctl init` writes, generated from the table of settings."""

from collections.abc import Iterator

from rlctl.files.table import Field, SettingsSection
from rlctl.topology.model import Kind, TargetName
from rlctl.topology.table import HOSTS, REDIS_DOC, SECTIONS, TOP

_HEADER = (
    "# A fleet of Redis servers. Edit this file, then run `rlctl deploy`.\n"
    "# All values are defaults: delete the lines that you do not change.\n"
)
_SAMPLE_HOSTS = (("10.0.0.11", "a"), ("10.0.0.12", "b"), ("10.0.0.13", "c"))
_COMMENT_COLUMN = 32


def template(kind: Kind, target: TargetName) -> str:
    """A topology file of this kind and target: every setting at its default, with a comment."""
    chosen = {"kind": kind.value, "target": target.value}
    top = [_line(f"{field.key}: {chosen.get(field.key, field.example)}", field.doc) for field in TOP.fields]
    blocks = ["".join(top)]
    blocks += [_block(section, target) for section in SECTIONS if section.only in {None, kind, target}]
    blocks.append(_line("redis: {}", REDIS_DOC))
    if target is TargetName.HOSTS:
        blocks.append(_hosts())
    return _HEADER + "\n".join(blocks)


def _block(section: SettingsSection, target: TargetName) -> str:
    lines = [_line(f"{section.key}:", section.doc)]
    for field in section.fields:
        if field.only not in {None, target}:
            continue
        default = section.default(field)
        setting = f"# {field.key}: {field.example}" if default is None else f"{field.key}: {_typed(field, default)}"
        lines.append(_line(f"  {setting}", field.doc))
    return "".join(lines)


def _hosts() -> str:
    return _line("hosts:", HOSTS.doc) + "".join(_host_lines())


def _host_lines() -> Iterator[str]:
    first, *others = _SAMPLE_HOSTS
    sample = dict(zip(("address", "zone"), first, strict=True))
    for field in HOSTS.fields:
        if field.key == "address":
            yield _line(f"  - address: {sample['address']}", field.doc)
        elif field.key in sample:
            yield _line(f"    {field.key}: {sample[field.key]}", field.doc)
        else:
            yield _line(f"    # {field.key}: {field.example}", field.doc)
    for address, zone in others:
        yield f"  - {{address: {address}, zone: {zone}}}\n"


def _typed(field: Field, value: object) -> str:
    shown = field.type.show(value)
    return str(shown).lower() if isinstance(shown, bool) else str(shown)


def _line(setting: str, doc: str) -> str:
    return f"{setting:<{_COMMENT_COLUMN}}# {doc}\n"
