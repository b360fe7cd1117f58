"""Finds runbooks: the pages that rlctl ships, and pages in a team's own files."""

from functools import cache
from pathlib import Path

from rlctl.assets import asset_folder
from rlctl.errors import NotFound
from rlctl.runbooks.page.load import read_page
from rlctl.runbooks.page.model import Runbook
from rlctl.system.files import read_text

INDEX = "README.md"


@cache
def all_shipped() -> tuple[Runbook, ...]:
    """All pages, ordered by id."""
    paths = sorted(path for path in asset_folder("runbooks").glob("*.md") if path.name != INDEX)
    return tuple(read_page(path.read_text(encoding="utf-8"), path.name) for path in paths)


def find(name: str) -> Runbook:
    """The page with this id, slug or full name; a name that ends in .md is the path of a page."""
    if name.endswith(".md"):
        text = read_text(Path(name))
        if text is None:
            raise NotFound(f"{name}: no such file", hint="give the path of a page, or an id from `rlctl runbook list`")
        return read_page(text, name)
    wanted = name.lower()
    for page in all_shipped():
        if wanted in {page.id.lower(), page.slug, page.name.lower()}:
            return page
    raise NotFound(f"there is no runbook {name!r}", hint="`rlctl runbook list` shows all ids; a path must end in .md")


def page_reference(page: Runbook) -> str:
    """A name for which `find` returns the same page in another process and working folder."""
    return page.id if page in all_shipped() else str(Path(page.source).absolute())
