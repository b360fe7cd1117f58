"""The mutants that scripts/mutants draws, and how it judges them. tests/local/test_mutants.py runs the script."""

import ast
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    loader = SourceFileLoader("mutants", str(ROOT / "scripts" / "mutants"))
    spec = importlib.util.spec_from_loader("mutants", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module by its name.
    sys.modules["mutants"] = module
    loader.exec_module(module)
    return module


MUTANTS = load()


def changed(source: str) -> list[str]:
    """The text of each mutant of a line."""
    text = source.encode()
    found = [mutant.apply(text).decode() for mutant in MUTANTS.Sampler(Path("x.py"), text).mutants()]
    for one in found:
        assert ast.dump(ast.parse(one)) != ast.dump(ast.parse(source))
    return found


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        pytest.param("a < b", ["(a <= b)"], id="a boundary"),
        pytest.param("a == b", ["(a != b)"], id="equality"),
        pytest.param("a is not None", ["(a is None)"], id="identity"),
        pytest.param("a not in b", ["(a in b)"], id="membership"),
        pytest.param("a < b < c", [], id="a chain is left alone"),
        pytest.param("a and b", ["(a or b)", "(b)", "(a)"], id="and, and each condition dropped"),
        pytest.param("a or b", ["(a and b)", "(b)", "(a)"], id="or"),
        pytest.param("not a", ["(a)"], id="not"),
        pytest.param("a + b * c", ["(a - b * c)", "a + (b // c)"], id="sums and products"),
        pytest.param("f(7)", ["pass", "f(8)"], id="off by one, and a dropped call"),
        pytest.param("x = True", ["x = False"], id="a flag"),
        pytest.param("x = 'text'", [], id="texts are for people"),
        pytest.param("x = min(a, b)", ["x = max(a, b)"], id="min and max"),
        pytest.param("x = all(a)", ["x = any(a)"], id="all and any"),
        pytest.param("if a:\n    b", ["if False:\n    b"], id="a dropped guard"),
        pytest.param("if a:\n    b\nelse:\n    c", ["if (not (a)):\n    b\nelse:\n    c"], id="swapped branches"),
        pytest.param("x = b if a else c", ["x = b if (not (a)) else c"], id="swapped values"),
        pytest.param("x = [a for a in b if a]", ["x = [a for a in b if True]"], id="a dropped filter"),
        pytest.param("def f():\n    return a", ["def f():\n    return None"], id="an early return"),
        pytest.param("def f():\n    return None", [], id="a return of nothing"),
        pytest.param("for a in b:\n    continue", ["for a in b:\n    break"], id="an early end"),
        pytest.param("'ä'; a < b", ["'ä'; (a <= b)"], id="places are bytes"),
        pytest.param("x: dict[str, 1] = y", [], id="an annotation"),
        pytest.param("@dataclass(frozen=True)\nclass A: ...", [], id="a decorator"),
        pytest.param("x = f'{a + 1}'", [], id="a value in a text"),
        pytest.param("x = zip(a, b, strict=True)", [], id="lengths are equal anyway"),
        pytest.param("if __name__ == '__main__':\n    f()", [], id="the main guard"),
        pytest.param("assert a < b", [], id="an assertion"),
    ],
)
def test_what_becomes_of_a_line(source: str, mutants: list[str]) -> None:
    assert changed(source) == mutants


def test_a_mutant_is_shown_as_a_difference() -> None:
    source = b"def f(a):\n    if a > 1:\n        return a\n"
    first, *_ = MUTANTS.Sampler(Path("x.py"), source).mutants()
    assert (first.line, first.difference(source)) == (2, ["- if a > 1:", "+ if False:"])


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    files = MUTANTS.scope_of(ROOT, ["limits/bucket"]).files
    every = MUTANTS.draw(ROOT, files, 1000, 1)
    assert len(set(every)) == len(every) > 5
    assert MUTANTS.draw(ROOT, files, 3, 1) == MUTANTS.draw(ROOT, files, 3, 1) != MUTANTS.draw(ROOT, files, 3, 2)
    assert set(MUTANTS.draw(ROOT, files, 3, 1)) <= set(every)


@pytest.mark.parametrize(
    ("packages", "first", "tests"),
    [
        (["plan"], "rlctl/plan/__init__.py", ("tests/unit/plan",)),
        (["rlctl/plan/"], "rlctl/plan/__init__.py", ("tests/unit/plan",)),
        (["drills/judge/verdict", "drills/judge/times"], "rlctl/drills/judge/verdict.py", ("tests/unit/drills",)),
        (["drills/report"], "rlctl/drills/report/__init__.py", ("tests/unit/drills",)),
        (["playbooks/library"], "playbooks/library/rlctl_check.py", ("tests/unit/playbooks",)),
        (["limits/keys"], "rlctl/limits/keys.py", ("tests/unit/limits", "tests/unit/limiter", "tests/unit/rules")),
        (
            ["operations/scripts"],
            "rlctl/operations/scripts.py",
            ("tests/unit/operations", "tests/local/test_scripts.py"),
        ),
    ],
)
def test_where_a_package_and_its_tests_lie(packages: list[str], first: str, tests: tuple[str, ...]) -> None:
    scope: Any = MUTANTS.scope_of(ROOT, packages)
    assert (scope.files[0].as_posix(), scope.tests) == (first, tests)


@pytest.mark.parametrize(
    ("package", "pure", "other"),
    [
        ("rules", "rlctl/rules/diff.py", "rlctl/rules/store.py"),
        ("drills", "rlctl/drills/judge/verdict.py", "rlctl/drills/engine/client.py"),
        ("limiter", "rlctl/limiter/core/routes.py", "rlctl/limiter/threads/finder.py"),
    ],
)
def test_pure_packages_have_modules_with_effects_that_are_drawn_by_name(package: str, pure: str, other: str) -> None:
    scope = MUTANTS.scope_of(ROOT, [package])
    assert Path(pure) in scope.files
    assert (Path(other) in scope.files) is (package == "limiter")
    assert (Path(other) in scope.left_out) is (package != "limiter")
    named = MUTANTS.scope_of(ROOT, [other.removesuffix(".py"), "plan"])
    assert (named.files[0], named.left_out) == (Path(other), ())


@pytest.mark.parametrize("package", ["nothing", "plan/nothing", "secrets", "assets"])
def test_a_package_that_is_not_there_or_has_no_tests(package: str) -> None:
    with pytest.raises(SystemExit, match=f"{package}: there are no such sources"):
        MUTANTS.scope_of(ROOT, [package])


@pytest.mark.parametrize(
    ("packages", "goal"),
    [
        (["plan"], 92),
        (["drills/judge/verdict", "rlctl/rules/"], 92),
        (["playbooks/library"], 75),
        (["limiter", "scripts"], 85),
        (["plan", "limiter"], None),
        (["execute"], None),
    ],
)
def test_the_goal_of_packages(packages: list[str], goal: int | None) -> None:
    assert MUTANTS.goal_of(packages) == goal


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ((25, 23, 92), "killed 23 of 25 (92 %), goal 92 %: reached"),
        ((200, 183, 92), "killed 183 of 200 (91 %), goal 92 %: not reached"),
        ((25, 23, None), "killed 23 of 25 (92 %)"),
        ((0, 0, 92), "killed 0 of 0 (0 %)"),
    ],
)
def test_the_last_line_names_the_goal(counts: tuple[int, int, int | None], line: str) -> None:
    assert MUTANTS.summary(*counts) == line


class Told(MUTANTS.Trial):  # type: ignore[misc,name-defined] - a script has no types here
    """A trial whose tests end as configured."""

    def __init__(self, tree: Path, end: int | Exception) -> None:
        (tree / "x.py").write_bytes(SOURCE)
        for name, text in TESTS.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text, encoding="utf-8")
        super().__init__(tree, tuple(TESTS))
        self.end = end
        self.seen: list[bytes] = []
        self.ran: list[str] = []

    def _run(self, tests: list[str], costs: object = None) -> int:
        assert costs is None
        self.ran += tests
        self.seen.append((self.tree / "x.py").read_bytes())
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


SOURCE = b"x = a < b\n"
TESTS = {"tests/local/test_x.py": "import x", "tests/unit/far.py": "import xy", "tests/unit/near.py": "import x"}


@pytest.mark.parametrize(
    ("end", "is_killed"),
    [
        pytest.param(0, False, id="all pass"),
        pytest.param(1, True, id="a test fails"),
        pytest.param(2, True, id="it cannot be imported"),
        pytest.param(4, True, id="conftest.py cannot be imported"),
        pytest.param(-11, True, id="the interpreter crashes"),
        pytest.param(TimeoutError(), True, id="it does not end"),
    ],
)
def test_when_a_mutant_is_noticed(tmp_path: Path, end: int | Exception, *, is_killed: bool) -> None:
    trial = Told(tmp_path, end)
    [mutant] = MUTANTS.Sampler(Path("x.py"), SOURCE).mutants()
    before = (trial.tree / "x.py").stat().st_mtime_ns
    assert trial.is_killed(mutant) is is_killed
    assert trial.ran == (["tests/unit/near.py"] if is_killed else ["tests/unit/near.py", *list(TESTS)[:2]])
    assert set(trial.seen) == {b"x = (a <= b)\n"}
    assert (trial.tree / "x.py").stat().st_mtime_ns == before
    assert (trial.tree / "x.py").read_bytes() == SOURCE


def test_tests_that_did_not_run_say_nothing(tmp_path: Path) -> None:
    [mutant] = MUTANTS.Sampler(Path("x.py"), SOURCE).mutants()
    with pytest.raises(SystemExit, match=r"pytest ended with 5 on x\.py:1"):
        Told(tmp_path, 5).is_killed(mutant)
