"""A release of limiter scripts as a value. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rlctl.errors import NotFound

Argument = str | int
# The names of the six integers in the reply of every script.
REPLY = ("allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A call of a script and its exact reply. The examples of a script run in sequence on one new key."""

    args: tuple[Argument, ...]
    reply: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A version of a script; `sha1` is the SHA1 of `source`.

    `bounded` is true if no call can block a shard, whatever its arguments.
    """

    name: str
    version: str
    file: str
    sha1: str
    source: bytes = field(repr=False)
    args: tuple[str, ...]
    state: int
    bounded: bool = True
    commands: tuple[str, ...]
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A versioned set of scripts; `reply` contains the names of the six integers of a reply.

    `known` are all script versions in the manifest, including those of other releases.
    """

    version: str
    digest: str
    folder: str
    reply: tuple[str, ...]
    scripts: tuple[Script, ...]
    known: tuple[Script, ...] = ()

    def script(self, name: str) -> Script | None:
        return next((script for script in self.scripts if script.name == name), None)

    def loadable(self, name: str) -> tuple[Script, ...]:
        """The release's version of a script and its earlier bounded versions, oldest first.

        Older rules and services still call the earlier versions. Earlier versions that can block a shard are omitted:
        an attacker with the runtime user's password could call them.
        """
        own = self.script(name)
        versions = [one for one in self.known if one.name == name]
        if own is None:
            return ()
        earlier = versions[: versions.index(own)] if own in versions else []
        return (*(one for one in earlier if one.bounded), own)

    def with_earlier(self, names: Iterable[str]) -> tuple[Script, ...]:
        """Return the scripts with these names, each with its loadable earlier versions."""
        wanted = set(names)
        return tuple(one for script in self.scripts if script.name in wanted for one in self.loadable(script.name))

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of all known versions of the scripts, for the ACL of the runtime user.

        Later versions are included: a return to this release must not break services that still call a later version.
        """
        names = {script.name for script in self.scripts}
        return tuple(sorted({command for one in self.known if one.name in names for command in one.commands}))

    def to_json(self) -> dict[str, object]:
        """Return the document that `rlctl scripts list -o json` prints."""
        return {
            "schema": "rlctl.scripts-list/1",
            "release": self.version,
            "scripts": [
                {
                    "name": script.name,
                    "version": script.version,
                    "sha1": script.sha1,
                    "file": f"{self.folder}/{script.file}",
                    "args": list(script.args),
                    "reply": list(self.reply),
                    "state": script.state,
                }
                for script in self.scripts
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All versions of all scripts. `releases` maps each release to its script versions; the newest release is last."""

    path: str
    folder: str
    digest: str
    scripts: tuple[Script, ...]
    releases: Mapping[str, Mapping[str, str]]

    def release(self, wanted: str | None = None) -> Release:
        """Return the wanted release, or the newest if None; NotFound if the manifest lacks the wanted release."""
        version = list(self.releases)[-1] if wanted is None else wanted
        if version not in self.releases:
            raise NotFound(f"{self.path}: no release {version}", hint=f"the releases are {', '.join(self.releases)}")
        scripts = {(script.name, script.version): script for script in self.scripts}
        return Release(
            version=version,
            digest=self.digest,
            folder=self.folder,
            reply=REPLY,
            scripts=tuple(scripts[pin] for pin in self.releases[version].items()),
            known=self.scripts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The release that was last applied to the fleet, as recorded there."""

    release: str
    digest: str
    state: str
