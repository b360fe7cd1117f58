"""One browser for all tests of this folder; it ends with them."""

import shutil
from collections.abc import Iterator

import pytest

from tests.browser.chromium import Chromium
from tests.conftest import skip_or_fail


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        skip_or_fail("browser", "no chromium on PATH")
        return
    found = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield found
    found.close()
