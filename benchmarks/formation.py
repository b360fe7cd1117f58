"""How long a fleet takes to form: rlctl compared with `redis-cli --cluster create`, on one machine."""

import argparse
import json
import signal
import sys
from functools import partial

from contest import Contestant, ContestError, Shape, Timing
from fleet import form_with_rlctl
from health import NotHealthyError
from peers import form_with_redis_cli
from results import GOALS, OURS, PEER_DEFAULT, PEER_FAST, Result, as_json, as_text, results_of
from startup import measure_startup

CONTESTANTS: dict[str, Contestant] = {
    PEER_DEFAULT: partial(form_with_redis_cli, sync_delay_s=None),
    PEER_FAST: partial(form_with_redis_cli, sync_delay_s=0),
    OURS: form_with_rlctl,
}


def parse_args() -> argparse.Namespace:
    """The options."""
    labels = [shape.label for shape in GOALS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("-n", "--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--shape", action="append", choices=labels, help="only this shape; may be repeated")
    parser.add_argument("--only", choices=["peers", "rlctl"], help="only one side, without the comparison")
    parser.add_argument("--no-startup", action="store_true", help="leave out `rlctl --help` and `rlctl status`")
    return parser.parse_args()


def contestants_for(shape: Shape, only: str | None) -> dict[str, Contestant]:
    """The contestants for a shape; redis-cli can only form clusters."""
    return {
        name: run
        for name, run in CONTESTANTS.items()
        if (name == OURS and only != "peers") or (name != OURS and only != "rlctl" and not shape.sentinels)
    }


def measure(shape: Shape, contestants: dict[str, Contestant], repeats: int) -> list[Result]:
    """Measure in rounds, so that noise of the machine affects all contestants."""
    runs: dict[str, list[Timing]] = {name: [] for name in contestants}
    for repeat in range(1, repeats + 1):
        for name, run in contestants.items():
            timing = run(shape)
            runs[name].append(timing)
            report(f"{shape.label}, {name}, {repeat} of {repeats}: healthy in {timing.healthy_s:.2f} s")
    return results_of(shape, runs)


def report(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def run_contest(args: argparse.Namespace) -> str:
    """Measure all shapes, then the start-up times."""
    shapes = [shape for shape in GOALS if not args.shape or shape.label in args.shape]
    results = [
        result
        for shape in shapes
        if (contestants := contestants_for(shape, args.only))
        for result in measure(shape, contestants, args.repeats)
    ]
    startup = None if args.no_startup or args.only == "peers" else measure_startup()
    if args.output == "json":
        return json.dumps(as_json(results, startup), indent=2)
    return as_text(results, startup)


def main() -> int:
    """Measure, print, and leave nothing running."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        print(run_contest(parse_args()))
    except (ContestError, NotHealthyError) as error:
        report(f"benchmark: {error}")
        return 1
    except KeyboardInterrupt:
        report("benchmark: interrupted; all processes were ended")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
