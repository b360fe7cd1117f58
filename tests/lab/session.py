"""What a layer's tests get of the lab, or why they do not run here."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.conftest import skip_or_fail
from tests.lab.engine import ensure_engine, is_up, lab_lock, stop_engine
from tests.lab.images import Image, ensure_compose, ensure_images
from tests.lab.shell import LabError


@contextmanager
def running_lab() -> Iterator[None]:
    """An engine, all images and `docker compose`; an engine that had to be started ends with the block."""
    with lab_lock():
        started = ensure_engine()
        try:
            ensure_images()
            ensure_compose()
        except LabError:
            if started:
                stop_engine()
            raise
    yield
    if started:
        left = stop_engine()
        assert not left, f"the tests left behind: {', '.join(left)}"


@contextmanager
def lab_for(layer: str, images: Iterable[Image]) -> Iterator[None]:
    """These images, an engine and `docker compose`, which the session started before its workers."""
    try:
        with lab_lock():
            if is_up():
                ensure_images(images)
                ensure_compose()
            else:
                skip_or_fail(layer, "no Docker engine answers; root with CI=true or RLCTL_LAB=start starts one")
    except LabError as failure:
        skip_or_fail(layer, str(failure))
    yield
