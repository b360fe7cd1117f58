"""The lab's images, built from Debian packages alone, and only where they are missing or their recipe changed."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.lab.shell import LabError, ensure_program, may_change_this_machine, run, succeeds, timed

RECIPES = Path(__file__).parent / "recipes"
PLUGIN = Path("/usr/local/lib/docker/cli-plugins/docker-compose")
_PLUGIN_IN_DEBIAN = "/usr/libexec/docker/cli-plugins/docker-compose"
_BUILD_S = 900.0
# What a root file system is made of; a change of these words builds everything anew.
_BOOTSTRAP = ("debootstrap", "--variant=minbase")
_NOT_KEPT = (
    *("./var/cache/apt/*.bin", "./var/cache/apt/archives/*.deb", "./var/lib/apt/lists/*", "./dev/*"),
    *("./usr/share/doc/*", "./usr/share/man/*", "./usr/share/locale/*", "./proc/*", "./sys/*"),
)
# Nobody needs these file systems after a power failure.
_NO_SYNC = ("etc/dpkg/dpkg.cfg.d/no-sync", "force-unsafe-io\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A tag, the Debian release below it, the recipe on top."""

    tag: str
    release: str
    recipe: str
    arguments: tuple[str, ...] = ()

    @property
    def pinned(self) -> str:
        """The tag with a digest of all that goes into it."""
        parts = [
            *_base_parts(self.release),
            *self.arguments,
            (RECIPES / f"{self.recipe}.Dockerfile").read_text("utf-8"),
        ]
        parts += [path.read_text(encoding="utf-8") for path in sorted(RECIPES.iterdir()) if not path.suffix]
        return f"{self.tag}-{_digest(parts)}"


_ON_BOOKWORM = "redis-server redis-sentinel redis-tools"
_ON_TRIXIE = f"{_ON_BOOKWORM} valkey-server valkey-sentinel valkey-tools"
REDIS_7 = Image(tag="rlctl-lab/redis:7.0", release="bookworm", recipe="redis", arguments=("FLAVOR=redis",))
REDIS_8 = Image(tag="rlctl-lab/redis:8.0", release="trixie", recipe="redis", arguments=("FLAVOR=redis",))
VALKEY_8 = Image(tag="rlctl-lab/valkey:8.1", release="trixie", recipe="redis", arguments=("FLAVOR=valkey",))
HOSTS = {
    release: Image(tag=f"rlctl-lab/host:{release}", release=release, recipe="host", arguments=(f"SERVERS={servers}",))
    for release, servers in {"bookworm": _ON_BOOKWORM, "trixie": _ON_TRIXIE}.items()
}
IMAGES = (REDIS_7, REDIS_8, VALKEY_8, *HOSTS.values())
_PLUGIN_IMAGE = Image(tag="rlctl-lab/compose:2", release="trixie", recipe="compose")


def ensure_images(images: Iterable[Image] = IMAGES) -> None:
    """Build those that are missing, all at once."""
    missing = [image for image in images if not _exists(image.pinned)]
    if not missing:
        return
    with timed("all images"), ThreadPoolExecutor() as pool:
        list(pool.map(_ensure_base, sorted({image.release for image in missing})))
        list(pool.map(_build, missing))


def ensure_compose() -> None:
    """Put the compose plugin of Debian trixie where every user's docker finds it, when there is none."""
    if has_compose():
        return
    if not may_change_this_machine():
        raise LabError("docker has no compose plugin; root with CI=true or RLCTL_LAB=start installs Debian's")
    ensure_images([_PLUGIN_IMAGE])
    PLUGIN.parent.mkdir(parents=True, exist_ok=True)
    container = run("docker", "create", _PLUGIN_IMAGE.pinned).strip()
    try:
        run("docker", "cp", f"{container}:{_PLUGIN_IN_DEBIAN}", PLUGIN)
    finally:
        run("docker", "rm", container)


def has_compose() -> bool:
    """Whether `docker compose` is there."""
    return succeeds("docker", "compose", "version")


def _exists(tag: str) -> bool:
    return bool(run("docker", "image", "ls", "--quiet", tag).strip())


def _build(image: Image) -> None:
    arguments = [
        word for one in (f"BASE={_base_tag(image.release)}", *image.arguments) for word in ("--build-arg", one)
    ]
    recipe = RECIPES / f"{image.recipe}.Dockerfile"
    with timed(image.tag):
        options = ("--quiet", "--network", "host", "--file", str(recipe), *arguments)
        run("docker", "build", *options, "--tag", image.pinned, "--tag", image.tag, RECIPES, timeout_s=_BUILD_S)


def _base_parts(release: str) -> list[str]:
    return [*_BOOTSTRAP, release, *_NOT_KEPT, *_NO_SYNC]


def _base_tag(release: str) -> str:
    return f"rlctl-lab/base:{release}-{_digest(_base_parts(release))}"


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _ensure_base(release: str) -> None:
    tag = _base_tag(release)
    if _exists(tag):
        return
    archive = cache() / f"{tag.replace('/', '-').replace(':', '-')}.tar"
    if not archive.exists():
        _bootstrap(release, archive)
    with timed(tag):
        run("docker", "import", archive, tag)


def cache() -> Path:
    """What is built once and kept."""
    named = os.environ.get("XDG_CACHE_HOME")
    folder = Path(named or tempfile.gettempdir()) / "rlctl-lab-cache"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _bootstrap(release: str, archive: Path) -> None:
    if os.geteuid() != 0:
        raise LabError(f"the images are not built yet, and debootstrap needs root to make {archive}")
    ensure_program("debootstrap", "debootstrap")
    work = Path(tempfile.mkdtemp(dir=archive.parent))
    work.chmod(0o755)
    try:
        root, unfinished = work / "root", work / "root.tar"
        with timed(f"debootstrap {release}"):
            # What it mounts in there vanishes with the mount namespace, however it ends.
            run("unshare", "--mount", *_BOOTSTRAP, release, root, timeout_s=_BUILD_S)
        (root / _NO_SYNC[0]).write_text(_NO_SYNC[1], encoding="ascii")
        leave = [f"--exclude={pattern}" for pattern in _NOT_KEPT]
        run("tar", "--create", "--numeric-owner", *leave, "--directory", root, "--file", unfinished, ".")
        unfinished.rename(archive)
    finally:
        shutil.rmtree(work)
