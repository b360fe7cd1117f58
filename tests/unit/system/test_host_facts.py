"""The parsers of what the system tells, with real texts and with garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.system.host_facts import (
    UNLIMITED,
    MemoryFacts,
    PortRange,
    parse_clock,
    parse_count,
    parse_limit,
    parse_meminfo,
    parse_platform,
    parse_port_range,
    parse_reserved_ports,
    parse_thp_mode,
)

MEMINFO = """\
MemTotal:       24684100 kB
MemFree:        18038880 kB
MemAvailable:   24014400 kB
Active(anon):     123456 kB
HugePages_Total:       0
SwapTotal:       2097148 kB
SwapFree:        2097100 kB
"""


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        pytest.param("linux", "linux", id="linux"),
        pytest.param("darwin", "darwin", id="macos"),
        pytest.param("win32", None, id="other"),
    ],
)
def test_platform(text: str, platform: str | None) -> None:
    assert parse_platform(text) == platform


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("1\n", 1, id="with newline"),
        pytest.param("0", 0, id="zero"),
        pytest.param("", None, id="empty"),
        pytest.param("-1\n", None, id="negative"),
        pytest.param("many", None, id="word"),
        pytest.param("\u0663", None, id="digit of another script"),
        pytest.param("9" * 5_000, None, id="too long for an int"),
    ],
)
def test_count(text: str, count: int | None) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        pytest.param("always [madvise] never\n", "madvise", id="madvise"),
        pytest.param("[always] madvise never\n", "always", id="always"),
        pytest.param("always madvise [never]\n", "never", id="never"),
        pytest.param("always madvise never\n", None, id="nothing chosen"),
        pytest.param("[always] [never]\n", None, id="two chosen"),
        pytest.param("[]", None, id="empty brackets"),
        pytest.param("", None, id="empty"),
    ],
)
def test_thp_mode(text: str, mode: str | None) -> None:
    assert parse_thp_mode(text) == mode


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        pytest.param("32768\t60999\n", (32_768, 60_999), id="default"),
        pytest.param("1024 65535", (1_024, 65_535), id="wide"),
        pytest.param("60999 32768", None, id="upside down"),
        pytest.param("32768", None, id="one port"),
        pytest.param("32768 70000", None, id="above the last port"),
        pytest.param("low high", None, id="words"),
        pytest.param("1024 high", None, id="half words"),
        pytest.param("", None, id="empty"),
    ],
)
def test_port_range(text: str, ports: PortRange | None) -> None:
    assert parse_port_range(text) == ports


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        pytest.param("\n", (), id="none reserved"),
        pytest.param("8080\n", ((8_080, 8_080),), id="one port"),
        pytest.param("8080,17000-17005\n", ((8_080, 8_080), (17_000, 17_005)), id="port and range"),
        pytest.param("1-2-3", None, id="three ends"),
        pytest.param("8080,", None, id="dangling comma"),
        pytest.param("what", None, id="word"),
    ],
)
def test_reserved_ports(text: str, ranges: tuple[PortRange, ...] | None) -> None:
    assert parse_reserved_ports(text) == ranges


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        pytest.param(
            MEMINFO,
            MemoryFacts(
                total_bytes=24_684_100 * 1024,
                available_bytes=24_014_400 * 1024,
                swap_total_bytes=2_097_148 * 1024,
                swap_used_bytes=48 * 1024,
            ),
            id="real",
        ),
        pytest.param("MemTotal: 10 kB\n", MemoryFacts(total_bytes=10_240), id="old kernel"),
        pytest.param("SwapTotal: 10 kB\n", MemoryFacts(swap_total_bytes=10_240), id="no SwapFree"),
        pytest.param("MemTotal: lots kB\nMemTotal\n:::\n", MemoryFacts(), id="garbage"),
        pytest.param("MemTotal: 10 MB\n", MemoryFacts(), id="another unit"),
        pytest.param("", MemoryFacts(), id="empty"),
    ],
)
def test_meminfo(text: str, facts: MemoryFacts) -> None:
    assert parse_meminfo(text) == facts


@pytest.mark.parametrize(
    ("returned", "status", "synchronised"),
    [
        pytest.param(0, 0x2001, True, id="synchronised"),
        pytest.param(1, 0x2001, True, id="leap second ahead"),
        pytest.param(5, 0x40, False, id="unsynchronised"),
        pytest.param(0, 0x40, False, id="status alone"),
        pytest.param(5, 0, False, id="state alone"),
        pytest.param(-1, 0, None, id="call refused"),
    ],
)
def test_clock(returned: int, status: int, synchronised: bool | None) -> None:  # noqa: FBT001 - a case of the table
    assert parse_clock(returned, status) is synchronised


@pytest.mark.parametrize(
    ("value", "infinity", "limit"),
    [
        pytest.param(1_024, -1, 1_024, id="number"),
        pytest.param(-1, -1, UNLIMITED, id="unlimited on linux"),
        pytest.param(2**63 - 1, 2**63 - 1, UNLIMITED, id="unlimited on macos"),
    ],
)
def test_limit(value: int, infinity: int, limit: int) -> None:
    assert parse_limit(value, infinity) == limit


@given(st.text())
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parse in (parse_count, parse_thp_mode, parse_port_range, parse_reserved_ports, parse_meminfo):
        parse(text)
