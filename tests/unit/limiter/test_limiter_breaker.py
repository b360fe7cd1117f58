import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.limiter.core.breaker import Breaker, BreakerSettings, Circuit


class ManualClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def breaker(clock: ManualClock, changes: list[Circuit] | None = None, chance: float = 0.5) -> Breaker:
    settings = BreakerSettings(failures=3, backoff_ms=100, max_backoff_ms=300, jitter=0.2)
    seen = changes if changes is not None else []
    return Breaker(settings, clock=clock, chance=lambda: chance, on_change=seen.append)


def trip(circuit: Breaker, times: int = 3) -> None:
    for _ in range(times):
        circuit.failed()


def test_it_opens_after_failures_in_a_row_only() -> None:
    changes: list[Circuit] = []
    circuit = breaker(ManualClock(), changes)
    trip(circuit, 2)
    circuit.succeeded()
    trip(circuit, 2)
    assert circuit.is_closed
    circuit.failed()
    assert not circuit.is_closed
    assert not circuit.admit()
    assert changes == [Circuit.OPEN]


def test_one_probe_goes_out_and_closes_it() -> None:
    clock, changes = ManualClock(), []
    circuit = breaker(clock, changes)
    trip(circuit)
    clock.now_s += 0.099
    assert not circuit.admit()
    clock.now_s += 0.002
    assert [circuit.admit(), circuit.admit()] == [True, False]
    assert circuit.circuit is Circuit.HALF_OPEN
    circuit.succeeded()
    assert circuit.is_closed
    assert circuit.admit()
    assert (circuit.opened, circuit.probes, circuit.retry_in_ms) == (1, 1, 0)
    assert changes == [Circuit.OPEN, Circuit.CLOSED]


def test_the_back_off_doubles_up_to_its_bound_and_starts_anew() -> None:
    clock = ManualClock()
    circuit = breaker(clock)
    trip(circuit)
    waits = []
    for _ in range(4):
        waits.append(circuit.retry_in_ms)
        clock.now_s += circuit.retry_in_ms / 1000 + 0.001
        assert circuit.admit()
        circuit.failed()
    assert waits == [100, 200, 300, 300]
    assert circuit.opened == 1
    clock.now_s += 1
    assert circuit.admit()
    circuit.succeeded()
    trip(circuit)
    assert circuit.retry_in_ms == 100


@pytest.mark.parametrize(("chance", "wait_ms"), [(0.0, 80), (0.5, 100), (1.0, 120)])
def test_jitter(chance: float, wait_ms: int) -> None:
    circuit = breaker(ManualClock(), chance=chance)
    trip(circuit)
    assert circuit.retry_in_ms == wait_ms


def test_calls_that_failed_together_count_once() -> None:
    clock = ManualClock()
    circuit = breaker(clock)
    for _ in range(10):
        circuit.failed(began_s=clock.now_s - 0.004)
    assert circuit.is_closed
    for _ in range(2):
        clock.now_s += 0.004
        circuit.failed(began_s=clock.now_s - 0.004)
    assert not circuit.is_closed


def test_a_forfeited_probe_lets_another_one_go() -> None:
    clock = ManualClock()
    circuit = breaker(clock)
    trip(circuit)
    clock.now_s += 1
    assert circuit.admit()
    circuit.abandoned()
    assert circuit.admit()


def test_at_once() -> None:
    circuit = breaker(ManualClock())
    circuit.failed(at_once=True)
    assert not circuit.is_closed


def test_of_many_threads_one_probes() -> None:
    clock = ManualClock()
    circuit = breaker(clock)
    trip(circuit)
    clock.now_s += 1
    gate, admitted = threading.Barrier(8), []

    def ask() -> None:
        gate.wait()
        admitted.append(circuit.admit())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(admitted) == [False] * 7 + [True]


@given(st.lists(st.sampled_from(["fail", "ok", "wait", "forfeit"]), max_size=60))
def test_it_always_closes_again(story: list[str]) -> None:
    clock = ManualClock()
    circuit = breaker(clock)
    for event in story:
        clock.now_s += 1.0 if event == "wait" else 0.001
        if circuit.admit():
            {"fail": circuit.failed, "ok": circuit.succeeded, "forfeit": circuit.abandoned, "wait": circuit.abandoned}[
                event
            ]()
        assert circuit.is_closed is (circuit.circuit is Circuit.CLOSED)
    clock.now_s += 1
    assert circuit.admit()
    circuit.succeeded()
    assert circuit.is_closed


@pytest.mark.parametrize("changes", [{"failures": 0}, {"backoff_ms": 0}, {"max_backoff_ms": 1}, {"jitter": 1.0}])
def test_settings_that_make_no_breaker(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a breaker needs"):
        BreakerSettings(**changes)  # type: ignore[arg-type]
