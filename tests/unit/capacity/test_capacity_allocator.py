"""Size classes, by the lists in jemalloc's own documentation."""

import pytest

from rlctl.capacity.layout.allocator import Allocator, classes_of, rounded

COMMON = [160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560]
CLASSES = {
    Allocator.DEBIAN: [8, 16, 32, 48, 64, 80, 96, 112, 128, *COMMON],
    Allocator.UPSTREAM: [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, *COMMON],
}
BINS = """\
bins:           size ind    allocated      nmalloc (#/sec)
                   8   0        12345         1234       0
                  16   1        12345         1234       0
{}                  32   2        12345         1234       0
                     ---
                  48   3        12345         1234       0
large:          size ind    allocated
               16384  36            0
"""
LINE = "                  24   2        12345         1234       0\n"


@pytest.mark.parametrize("allocator", Allocator)
def test_every_size_gets_the_next_class(allocator: Allocator) -> None:
    classes = CLASSES[allocator]
    for size in range(1, classes[-1] + 1):
        assert rounded(size, allocator) == next(one for one in classes if one >= size)


@pytest.mark.parametrize("allocator", Allocator)
@pytest.mark.parametrize(("size", "expected"), [(16_385, 20_480), (1_048_576, 1_048_576), (1_048_577, 1_310_720)])
def test_large_sizes_have_four_classes_a_doubling(allocator: Allocator, size: int, expected: int) -> None:
    assert rounded(size, allocator) == expected


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        pytest.param(BINS.format(LINE), Allocator.UPSTREAM, id="a bin of 24"),
        pytest.param(BINS.format(""), Allocator.DEBIAN, id="none of 24"),
        pytest.param("Stats not supported for the current allocator", None, id="no jemalloc"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_classes_are_told_by_the_bin_of_24(stats: str, expected: Allocator | None) -> None:
    assert classes_of(stats) is expected
