"""Ansible module: keeps or removes the packages that rlctl_package installed, after the host's last fleet is gone."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_package_removal
short_description: Keep or remove the packages that rlctl installed
description:
  - C(state=kept) leaves the packages installed and records that no fleet needs them.
  - C(state=absent) removes the packages that nothing else uses, and keeps their configuration files. A package stays if
    a process uses its files, a unit outside rlctl refers to it, its folders contain a file from no package, or another
    package needs it.
  - Units that rlctl_package masked stay masked while their package stays.
options:
  record: {type: path, required: true, description: JSON file that rlctl_package wrote}
  state: {type: str, choices: [kept, absent], default: kept, description: whether to remove the unused packages}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Remove the packages that nothing else uses
  rlctl_package_removal: {record: /etc/rlctl/.host/packages.json, state: absent}
"""

RETURN = r"""
packages: {type: list, returned: always, description: "packages that were removed, or in check mode would be"}
kept: {type: list, returned: always, description: packages that stay}
reasons: {type: list, returned: always, description: "which packages stay, and with C(state=absent) why"}
"""

_ENVIRONMENT = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
_UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
_PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
_UNIT_SUFFIXES = (".service", ".socket", ".timer", ".target", ".path")
# The packages' install scripts create folders here, which dpkg does not list.
_DATA_FOLDERS = ("/etc", "/var/lib", "/var/log")
_NEEDED = "needed by another package"
Files = dict[str, frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class Record:
    """The packages that rlctl installed and the units that it masked; `kept` if no fleet is left on the host."""

    packages: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    kept: bool = False


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Everything on the host that may use the packages."""

    files: Files
    # Mapped files by process, such as "redis-server (pid 812)".
    processes: dict[str, frozenset[str]]
    # Paths and units named in each unit file that is not rlctl's.
    units: dict[str, frozenset[str]]
    running: frozenset[str]
    # Files in each package's folders that belong to no package.
    foreign: dict[str, tuple[str, ...]]


def reason(package: str, usage: Usage) -> str:
    """Why a package must stay; empty if nothing uses it."""
    files = usage.files[package]
    units = {Path(path).name for path in files if path.endswith(_UNIT_SUFFIXES)}
    found = [
        *(f"used by {process}" for process, mapped in usage.processes.items() if mapped & files),
        *(f"{unit} is active" for unit in sorted(units & usage.running)),
        *(
            f"{path} refers to {min(named)}"
            for path, words in usage.units.items()
            if (named := words & (files | units))
        ),
        *(f"{path} is not from a package" for path in usage.foreign.get(package, ())),
    ]
    return "; ".join(found[:2])


def sentences(kept: dict[str, str], masked: Iterable[str]) -> list[str]:
    """One sentence for each reason, with the packages that stay, then one for each unit that stays masked."""
    found = []
    for why in dict.fromkeys(kept.values()):
        names = ", ".join(sorted(name for name, own in kept.items() if own == why))
        found.append(f"{names}: still installed" + (f" ({why})" if why else ""))
    return found + [f"{unit}: still masked" for unit in masked if found]


def words(text: str) -> frozenset[str]:
    """Paths and units in the text of a unit file. An instance `a@b.service` becomes its template `a@.service`."""
    found: set[str] = set()
    for line in text.replace("\\\n", " ").splitlines():
        key, _, value = line.strip().partition("=")
        if key.startswith(("#", ";")) or key in {"Description", "Documentation"}:
            continue
        tokens = [token.lstrip("-+!@:") for token in re.findall(r"[\w@%+./:!\\-]+", value)]
        if key.startswith("Exec") and tokens and "/" not in tokens[0]:
            tokens += [f"{folder}/{tokens[0]}" for folder in _PROGRAM_FOLDERS]
        found.update(re.sub(r"@[^@]*(\.\w+)$", r"@\1", token) for token in tokens)
    return frozenset(found)


def refused(output: str) -> set[str]:
    """The packages that dpkg's output lists as not processed."""
    listed = output.partition("Errors were encountered while processing:\n")[2]
    return {line.strip().partition(":")[0] for line in listed.splitlines() if line.startswith(" ")}


class Host:
    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.path = Path(module.params["record"])

    def run(self, *argv: str) -> tuple[int, str]:
        """Exit code and all output of the program."""
        code, out, err = self.module.run_command(list(argv), environ_update=_ENVIRONMENT)
        return code, f"{out}\n{err}"

    def installed(self) -> set[str]:
        """Names of the packages that are completely installed."""
        _, listed = self.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n")
        lines = [line.split(" ") for line in listed.splitlines()]
        return {line[1] for line in lines if len(line) > 1 and line[0] == "installed"}

    def record(self) -> Record:
        """The record that earlier runs wrote."""
        if not self.path.exists():
            return Record()
        found = json.loads(self.path.read_text(encoding="utf-8"))
        return Record(
            packages=tuple(found["packages"]), masked=tuple(found["masked"]), kept=bool(found.get("kept", False))
        )

    def write_record(self, record: Record) -> None:
        """Replace the record atomically; remove it if no package is left."""
        if not record.packages:
            self.path.unlink(missing_ok=True)
            return
        unfinished = self.path.with_suffix(".new")
        unfinished.write_text(f"{json.dumps(record.__dict__)}\n", encoding="utf-8")
        unfinished.replace(self.path)

    def usage(self, packages: list[str], others: set[str]) -> Usage:
        """Find everything that uses these packages; `others` are all other installed packages."""
        listed = {name: self._listed(name) for name in packages}
        files = {name: with_real_paths(paths) for name, paths in listed.items()}
        known = frozenset().union(*files.values())
        brought = known.union(*listed.values())
        shared = self._listed(*sorted(others)) if others else frozenset()
        return Usage(
            files=files,
            processes=dict(processes()),
            units=dict(units(known)),
            running=self._running(known),
            foreign={name: foreign(name, listed[name] - shared, brought) for name in packages},
        )

    def _listed(self, *packages: str) -> frozenset[str]:
        _, listed = self.run("dpkg-query", "-L", *packages)
        return frozenset(line for line in listed.splitlines() if line.startswith("/") and line != "/.")

    def _running(self, files: frozenset[str]) -> frozenset[str]:
        own = [Path(path).name for path in files if path.endswith(_UNIT_SUFFIXES)]
        if not own:
            return frozenset()
        patterns = [name.replace("@.", "@*.") for name in own]
        states = "--state=active,activating,reloading,deactivating"
        _, listed = self.run("systemctl", "list-units", "--all", "--plain", "--no-legend", states, *patterns)
        names = [line.split()[0] for line in listed.splitlines() if line.strip()]
        return frozenset(re.sub(r"@[^@]*(\.\w+)$", r"@\1", name) for name in names)

    def without_dependents(self, packages: list[str]) -> list[str]:
        """The packages that dpkg would remove, since no installed package depends on them."""
        _, output = self.run("dpkg", "--no-act", "--remove", *packages)
        return sorted(set(packages) - refused(output))

    def remove(self, packages: list[str]) -> None:
        """Remove the packages. Their configuration files and data stay."""
        code, output = self.run("dpkg", "--remove", *packages)
        if code != 0:
            self.module.fail_json(msg=f"cannot remove {', '.join(packages)}: {output.strip()}. Run again")


def processes() -> Iterator[tuple[str, frozenset[str]]]:
    """Each process with the files that it maps. Leaves out processes of containers, which have another root."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended
            if shares_root(process):
                name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
                yield f"{name} (pid {process.name})", frozenset(mapped(process))


def shares_root(process: Path) -> bool:
    """Whether a process sees this root file system; True if root may not read that, as in some containers."""
    try:
        return os.path.samestat((process / "root").stat(), Path("/").stat())
    except PermissionError:
        return True


def mapped(process: Path) -> Iterator[str]:
    """Program and libraries of a process; only argv[0] if root may not read its maps."""
    try:
        maps = (process / "maps").read_text(encoding="utf-8", errors="replace")
    except PermissionError:
        yield (process / "cmdline").read_text(encoding="utf-8", errors="replace").partition("\0")[0].partition(" ")[0]
        return
    yield from (f"/{line.partition('/')[2].removesuffix(' (deleted)')}" for line in maps.splitlines() if "/" in line)


def units(own: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Each unit file, drop-in and enabling link on the host, except those of rlctl and of the packages themselves."""
    for folder in _UNIT_FOLDERS:
        for base, _, names in os.walk(folder):
            for path in (Path(base, name) for name in sorted(names)):
                real = os.path.realpath(path)
                if any(part.startswith("rlctl-") for part in path.relative_to(folder).parts) or real == "/dev/null":
                    continue
                if real in own:
                    if path.parent.name.endswith((".wants", ".requires")) and not is_masked(path.name):
                        yield str(path), words(f"Wants={path.name}")
                    continue
                dropped_in = words(f"Of={path.parent.name[:-2]}") if path.parent.name.endswith(".d") else frozenset()
                yield str(path), words(text_of(path)) | dropped_in


def is_masked(unit: str) -> bool:
    """Whether the unit is masked."""
    return os.path.realpath(Path("/etc/systemd/system", unit)) == "/dev/null"


def text_of(path: Path) -> str:
    """The text of a unit file; empty for a dangling link."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def foreign(package: str, own: frozenset[str], brought: frozenset[str]) -> tuple[str, ...]:
    """Files in a package's folders that are not in `brought`, the files that the packages installed."""
    folders = {path for path in own if Path(path).is_dir() and not Path(path).is_symlink()}
    folders |= {f"{base}/{package.removesuffix('-server')}" for base in _DATA_FOLDERS}
    inside = {str(path) for folder in folders for path in Path(folder).glob("*")}
    return tuple(sorted(inside - brought))


def with_real_paths(paths: frozenset[str]) -> frozenset[str]:
    """The files and their resolved paths, since Debian's redis-server is a link to a program of redis-tools."""
    files = {path for path in paths if not Path(path).is_dir()}
    return frozenset(files | set(map(os.path.realpath, files)))


def settle(host: Host) -> tuple[list[str], dict[str, str], Record]:
    """Packages to remove, packages that stay with their reasons, and the record of those that stay."""
    record, there = host.record(), host.installed()
    ours = [name for name in record.packages if name in there]
    if not ours:
        return [], {}, Record()
    if host.module.params["state"] == "kept":
        return [], dict.fromkeys(ours, ""), replace(record, packages=tuple(ours), kept=True)
    usage = host.usage(ours, there - set(ours))
    whys = {name: reason(name, usage) for name in ours}
    unused = [name for name, why in whys.items() if not why]
    going = host.without_dependents(unused) if unused else []
    kept = {name: why or _NEEDED for name, why in whys.items() if name not in going}
    staying = {Path(path).name for name in kept for path in usage.files[name]}
    masked = tuple(unit for unit in record.masked if unit in staying)
    return going, kept, Record(packages=tuple(kept), masked=masked, kept=bool(kept))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "record": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["kept", "absent"], "default": "kept"},
        },
        supports_check_mode=True,
    )
    host = Host(module)
    try:
        before = host.record()
        going, kept, after = settle(host)
        if not module.check_mode:
            if going:
                host.remove(going)
            if unmasked := sorted(set(before.masked) - set(after.masked)):
                host.run("systemctl", "unmask", *unmasked)
            if before != after:
                host.write_record(after)
        module.exit_json(
            changed=before != after, packages=going, kept=sorted(kept), reasons=sentences(kept, after.masked)
        )
    except OSError as failure:
        module.fail_json(msg=f"cannot write {host.path}: {failure.strerror}. Fix the cause and run again")


if __name__ == "__main__":
    main()
