"""Ansible module: creates, replaces and removes files and folders of a host in one call, with check mode and diff."""

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
short_description: Place files and folders on a host in one round trip
description:
  - Replaces each file that differs by an atomic rename. The new file has its owner and mode from the start.
  - C(keep) is a regular expression for files that the server owns. An existing file whose text matches stays
    unchanged. A file that does not match gets the suffix C(.damaged), and a new file takes its place.
  - The action plugin on the control machine repeats the entries for each node of C(for_each) (C(%i) is the node's name,
    C(%u) its value) and reads C(source). A source with C(optional) may be missing.
options:
  for_each: {type: raw, description: "names of nodes, or a mapping of names to node ids"}
  folders: {type: list, elements: dict, description: "path, owner, group, mode"}
  files: {type: list, elements: dict, description: "path, content or source, owner, group, mode, keep"}
  absent: {type: list, elements: path, description: files and folders to remove, with their contents}
  emptied: {type: list, elements: path, description: "folders to remove last; a folder that is not empty is an error"}
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
changed_paths: {type: list, returned: always, description: paths that differed}
moved_aside: {type: list, returned: always, description: files that did not match C(keep) and were renamed}
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
# The largest file that is read for comparison.
_MOST_BYTES = 1024 * 1024
Entry = dict[str, Any]


class Placing:
    """Applies the entries of one run and records the changed paths and their diffs."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.changed: list[str] = []
        self.moved: list[str] = []
        self.diffs: list[dict[str, str]] = []

    def folder(self, entry: Entry) -> None:
        """Create the folder, or correct its owner and mode."""
        path = Path(entry["path"])
        exists = path.is_dir()
        if exists and not self._attributes_differ(path, entry):
            return
        self._note(path, "folder" if exists else "", "folder\n")
        if self.module.check_mode:
            return
        if path.parent.stat().st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "its parent folder is not root's, so it may be a link by now")
        if not exists:
            # Until chown and chmod below, no other user may enter the folder.
            path.mkdir(mode=0o700)
        os.chown(path, *_ids(entry))
        path.chmod(int(entry["mode"], 8))

    def file(self, entry: Entry) -> None:
        """Write the file, or correct its owner and mode; a file that matches `keep` stays as it is."""
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
        """Remove the file or folder. Removes a symbolic link, never its target."""
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
        """Remove the folder; OSError if it is not empty."""
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
                # Uses the descriptor, since the service user may have replaced the path in its own folder with a link.
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
    """The text of a regular file, None if there is no file.

    OSError for a link, FIFO or oversized file: the service user may put anything into its folder.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as failure:
        if failure.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed as root") from failure
        raise
    try:
        return _bounded(descriptor)
    finally:
        os.close(descriptor)


def _bounded(descriptor: int) -> str:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        found = stream.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise OSError(errno.EFBIG, "it is larger than 1 MiB")
    return found.decode("utf-8", "replace")


def main() -> None:
    # Folders come first: the files are written into them.
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
                    msg=f"cannot change {entry['path']}: {failure.strerror}; it was left as it was. "
                    "Fix the cause (space, mount options, permissions) and run again",
                    changed_paths=placing.changed,
                )
    module.exit_json(
        changed=bool(placing.changed), changed_paths=placing.changed, moved_aside=placing.moved, diff=placing.diffs
    )


if __name__ == "__main__":
    main()
