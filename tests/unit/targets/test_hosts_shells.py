"""What a root shell on a host is told."""

from rlctl.targets.hosts.shells import suspend_restarts_script


def test_restarts_are_held_by_the_hosts_own_clock() -> None:
    """Its clock may be an hour off from ours, and the guard there goes by it."""
    hold = "/run/rlctl/limiter/hold"
    assert (
        suspend_restarts_script("limiter", 20.5)
        == f"mkdir -p /run/rlctl/limiter && echo $(($(date +%s) + 21)) > {hold}"
    )
    assert suspend_restarts_script("limiter", 0) == f"rm -f {hold}"
