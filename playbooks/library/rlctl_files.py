"""Ansible module: folders and files of a host, all in one go, with check mode and diff."""

import errno
import grp
import os
import pwd
import re
import shutil
import stat
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_files
short_description: Put folders and files on a host in one round trip
description:
  - Writes what differs, whole and atomically, with owner and mode from the first moment.
  - An existing file with C(keep) that matches it belongs to the server and is left alone; one that does not match is
    moved aside as C(X.damaged) first.
  - On the controller, entries are repeated for each node of C(for_each) (C(%i) is its name, C(%u) its value), and
    C(source) is read; C(optional) sources may be missing.
options:
  for_each: {type: raw, description: names of nodes, or a mapping of them to their ids}
  folders: {type: list, elements: dict, description: "path, owner, group, mode"}
  files: {type: list, elements: dict, description: "path, content or source, owner, group, mode, keep"}
  absent: {type: list, elements: path, description: files and folders to remove, with all that is in them}
  emptied: {type: list, elements: path, description: "folders to remove at the end, and only when they are empty"}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Place the settings of two nodes
  rlctl_files:
    for_each: [node-0, node-1]
    folders: [{path: /etc/rlctl/limiter/%i, group: rlctl, mode: "0750"}]
    files: [{source: /stage/%i/static.conf, path: /etc/rlctl/limiter/%i/static.conf, group: rlctl, mode: "0640"}]
  no_log: true
  diff: false
"""

RETURN = r"""
changed_paths: {type: list, returned: always, description: what differed}
moved_aside: {type: list, returned: always, description: files that were not this node's any more}
"""

_PLACE = {
    "path": {"type": "path", "required": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "required": True},
}
_FILE = {
    **_PLACE,
    "content": {"type": "str"},
    "secret": {"type": "str", "no_log": True},
    "keep": {"type": "str"},
}
# The largest file that is compared with what it should be.
_MOST_BYTES = 1024 * 1024
Entry = dict[str, Any]


class Placing:
    """One run: what differed, and what it looked like."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.changed: list[str] = []
        self.moved: list[str] = []
        self.diffs: list[dict[str, str]] = []

    def folder(self, entry: Entry) -> None:
        """A folder with this owner and mode."""
        path = Path(entry["path"])
        exists = path.is_dir()
        if exists and not self._attributes_differ(path, entry):
            return
        self._note(path, "folder" if exists else "", "folder\n")
        if self.module.check_mode:
            return
        if path.parent.stat().st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "the folder above it is not root's, so it may be a link by now")
        if not exists:
            # Nobody may enter before it is its owner's.
            path.mkdir(mode=0o700)
        os.chown(path, *_ids(entry))
        path.chmod(int(entry["mode"], 8))

    def file(self, entry: Entry) -> None:
        """A file with this content, owner and mode."""
        path, wanted = Path(entry["path"]), entry["secret"] if entry["content"] is None else entry["content"]
        there = _read(path)
        if there is not None and entry["keep"] is not None:
            if re.search(entry["keep"], there, re.MULTILINE):
                return
            self._move_aside(path)
            there = None
        if there == wanted and not self._attributes_differ(path, entry):
            return
        shown = entry["content"] is not None
        self._note(path, (there or "") if shown else "", wanted if shown else "not shown\n")
        if not self.module.check_mode:
            self._write(path, wanted, entry)

    def absent(self, entry: Entry) -> None:
        """Neither file nor folder; of a link only the link."""
        path = Path(entry["path"])
        if not path.exists() and not path.is_symlink():
            return
        self._note(path, "there\n", "")
        if self.module.check_mode:
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def emptied(self, entry: Entry) -> None:
        """No folder; one that holds anything is left, and that is an error."""
        path = Path(entry["path"])
        if not path.exists():
            return
        self._note(path, "folder\n", "")
        if not self.module.check_mode:
            path.rmdir()

    def _write(self, path: Path, text: str, entry: Entry) -> None:
        unfinished = path.with_name(f".{path.name}.rlctl")
        unfinished.unlink(missing_ok=True)
        try:
            with os.fdopen(
                os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
            ) as out:
                out.write(text)
                out.flush()
                # By descriptor: in the service user's folder the name may be a link by now.
                os.fchown(out.fileno(), *_ids(entry))
                os.fchmod(out.fileno(), int(entry["mode"], 8))
                os.fsync(out.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    def _move_aside(self, path: Path) -> None:
        self.moved.append(str(path))
        if not self.module.check_mode:
            path.replace(path.with_suffix(f"{path.suffix}.damaged"))

    def _note(self, path: Path, before: str, after: str) -> None:
        self.changed.append(str(path))
        self.diffs.append({"before_header": str(path), "after_header": str(path), "before": before, "after": after})

    def _attributes_differ(self, path: Path, entry: Entry) -> bool:
        now = path.stat()
        try:
            wanted = (*_ids(entry), int(entry["mode"], 8))
        except KeyError:
            return True
        return (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) != wanted


def _ids(entry: Entry) -> tuple[int, int]:
    return pwd.getpwnam(entry["owner"]).pw_uid, grp.getgrnam(entry["group"]).gr_gid


def _read(path: Path) -> str | None:
    """The text of a regular file, None where there is no file. The service user may have put anything else there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as failure:
        if failure.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link, and root follows none here") from failure
        raise
    try:
        return _bounded(descriptor)
    finally:
        os.close(descriptor)


def _bounded(descriptor: int) -> str:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        found = stream.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise OSError(errno.EFBIG, "it is larger than 1 MiB")
    return found.decode("utf-8", "replace")


def main() -> None:
    """Folders first, in the order given."""
    module = AnsibleModule(
        argument_spec={
            "folders": {"type": "list", "elements": "dict", "default": [], "options": _PLACE},
            "files": {"type": "list", "elements": "dict", "default": [], "options": _FILE},
            "absent": {"type": "list", "elements": "path", "default": []},
            "emptied": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    placing = Placing(module)
    wanted = {
        placing.folder: module.params["folders"],
        placing.file: module.params["files"],
        placing.absent: [{"path": path} for path in module.params["absent"]],
        placing.emptied: [{"path": path} for path in module.params["emptied"]],
    }
    for place, entries in wanted.items():
        for entry in entries:
            try:
                place(entry)
            except OSError as failure:
                module.fail_json(
                    msg=f"cannot change {entry['path']}: {failure.strerror}; what was there is as it was. "
                    "Put it right (space, mount options, permissions) and run again",
                    changed_paths=placing.changed,
                )
    module.exit_json(
        changed=bool(placing.changed), changed_paths=placing.changed, moved_aside=placing.moved, diff=placing.diffs
    )


if __name__ == "__main__":
    main()
