"""Everything that the pages name exists: links and headings, files of the checkout, names in sources, make targets."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.sources import ORDER

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "runbooks", "playbooks", "lua", "tests", ".github")
PAGES = sorted([*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))])
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
# A path of the checkout, and after :: a name in it, in the form of pytest.
NAMED = re.compile(r"(?P<path>[\w.-]+(?:/[\w.*-]+)+/?)(?:::(?P<name>\w+))?")
# A comment begins with `#`, or after a gap of two spaces.
REMARK = re.compile(r"#|  ")


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def slug(heading: str) -> str:
    """The anchor of a heading: lower-case letters, digits and dashes."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def mistakes(page: Path, text: str) -> list[str]:
    prose = FENCE.sub("", text)
    spans = [" ".join(span.split()) for span in SPAN.findall(prose)]
    return [
        *(f"link {link}" for link in LINK.findall(prose) if not leads_somewhere(page, link)),
        *(f"file {span}" for span in spans if is_lost(span)),
        *(f"make {target}" for target in made(text) if target not in TARGETS),
    ]


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not heading or heading in {slug(found) for found in HEADING.findall(FENCE.sub("", read(target)))}


def is_lost(span: str) -> bool:
    """Whether a code span names a file of this checkout, or a name in one, that does not exist."""
    found = NAMED.fullmatch(span)
    if found is None or not (ROOT / found["path"].split("/")[0]).is_dir():
        return False
    paths = list(ROOT.glob(found["path"].rstrip("/")))
    return not paths or (found["name"] is not None and not any(found["name"] in names(path) for path in paths))


@cache
def names(path: Path) -> frozenset[str]:
    """The functions, classes, methods and constants that a source defines."""
    found = set()
    for node in ast.walk(ast.parse(read(path))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def made(text: str) -> Iterator[str]:
    """The `make` targets in code spans and blocks."""
    codes = [*FENCE.findall(text), *SPAN.findall(FENCE.sub("", text))]
    for code in codes:
        for line in code.splitlines():
            words = REMARK.split(line.strip())[0].split()
            if words[:1] == ["make"]:
                yield from (word for word in words[1:] if re.fullmatch(r"[a-z][a-z-]*", word))


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_a_page_names_what_exists(page: Path) -> None:
    assert mistakes(page, read(page)) == []


def test_the_pages_are_there() -> None:
    assert {place(page) for page in PAGES} >= {
        *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/architecture.md", "docs/security.md"),
        *("docs/decisions/README.md", "examples/README.md", "tests/README.md", ".github/PULL_REQUEST_TEMPLATE.md"),
    }


def test_the_architecture_has_every_package_in_order() -> None:
    packages = [f"rlctl/{name}" for name in ORDER if (ROOT / "rlctl" / name).is_dir()]
    rows = re.findall(r"^\| `(rlctl/\w+)` \|", read(ROOT / "docs/architecture.md"), re.MULTILINE)
    assert rows == packages, "docs/architecture.md lists them in the order of imports"


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs/decisions"
    records = {path.name for path in folder.glob("[0-9]*.md")}
    assert records == set(re.findall(r"\]\(([0-9][^)]*)\)", read(folder / "README.md")))
    for name in records:
        assert HEADING.findall(read(folder / name))[1:] == ["Context", "Decision", "Consequences"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("[a](docs/security.md)", [], id="link"),
        pytest.param("[a](docs/security.md#turn-on-tls)", [], id="heading"),
        pytest.param("[a](docs/security.md#turn-on)", ["link docs/security.md#turn-on"], id="lost heading"),
        pytest.param("[a](docs/secure.md)", ["link docs/secure.md"], id="lost link"),
        pytest.param("# A page\n[a](#a-page) [b](#b-page)", ["link #b-page"], id="heading of the page"),
        pytest.param("`rlctl/plan/steps.py` and `rlctl/plan`", [], id="file and folder"),
        pytest.param("`playbooks/roles/*/meta/main.yml`", [], id="pattern"),
        pytest.param("`rlctl/plan/stepz.py`", ["file rlctl/plan/stepz.py"], id="lost file"),
        pytest.param("`rlctl/plan/steps.py::describe`", [], id="function"),
        pytest.param("`rlctl/plan/steps.py::_KINDS`", [], id="constant"),
        pytest.param("`rlctl/plan/steps.py::descrbe`", ["file rlctl/plan/steps.py::descrbe"], id="lost name"),
        pytest.param("`/etc/rlctl/x`, `rlctl env/status`, `topology.yaml`", [], id="other paths"),
        pytest.param("`make check` and\n```sh\nmake lint types  # chek\n```", [], id="targets"),
        pytest.param("```sh\nmake chek\n```", ["make chek"], id="lost target in a block"),
        pytest.param("`make chek`", ["make chek"], id="lost target"),
        pytest.param("`make bench ARGS=x`, made of `x`", [], id="a variable"),
    ],
)
def test_what_is_found(text: str, says: list[str], tmp_path: Path) -> None:
    page = ROOT / "page.md" if "#a-page" not in text else tmp_path / "page.md"
    if page.parent == tmp_path:
        page.write_text(text, encoding="utf-8")
    assert mistakes(page, text) == says
