"""What a layer's tests get of the lab, or why they do not run here."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.conftest import skip_or_fail
from tests.lab.engine import ensure_engine, stop_engine
from tests.lab.images import Image, ensure_compose, ensure_images
from tests.lab.shell import LabError


@contextmanager
def lab_for(layer: str, images: Iterable[Image]) -> Iterator[None]:
    """An engine, `docker compose` and these images; an engine that had to be started ends with the block."""
    started = False
    try:
        started = ensure_engine()
        ensure_images(images)
        ensure_compose()
    except LabError as failure:
        if started:
            stop_engine()
        skip_or_fail(layer, str(failure))
    yield
    if started:
        left = stop_engine()
        assert not left, f"the tests left behind: {', '.join(left)}"
