"""The cost of a decision: scripts of rlctl, other libraries, and INCR."""

import argparse
import json
import random
import signal
import sys
import time

from contenders import BUDGET_MS, Contender, all_contenders, warm_up
from contest import ContestError
from duels import Result, as_json, as_text, result_of
from headers import measure_headers
from outage import measure_outage
from redis import Redis
from scratch_server import commands_of, our_limiter, scratch_server, spent_on

from rlctl.system.redis import Credentials, NodeLink

ROUNDS_A_REPEAT = 8
CALLS_A_ROUND = 200


def parse_args() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("-n", "--repeats", type=int, default=3, metavar="N", help=f"of {ROUNDS_A_REPEAT} rounds each")
    return parser.parse_args()


def measure(client: Redis, link: NodeLink, contenders: list[Contender], rounds: int) -> list[Result]:
    """Measure in rounds and in random order, so that noise of the machine affects all limiters."""
    warm_up(contenders)
    commands = [commands_of(client, one.decide) for one in contenders]
    figures: list[list[tuple[float, float]]] = [[] for _ in contenders]
    order = list(range(len(contenders)))
    shuffled = random.Random(1)  # noqa: S311  an order, not a secret
    for number in range(1, rounds + 1):
        shuffled.shuffle(order)
        for index in order:
            figures[index].append(one_round(link, contenders[index], commands[index]))
        report(f"round {number} of {rounds}")
    return [
        result_of(one, [server_us for server_us, _ in own], [per_s for _, per_s in own])
        for one, own in zip(contenders, figures, strict=True)
    ]


def one_round(link: NodeLink, contender: Contender, commands: frozenset[str]) -> tuple[float, float]:
    """Server microseconds for each decision, and decisions per second."""
    decide = contender.decide
    before = spent_on(link, commands)
    started_s = time.perf_counter()
    for _ in range(CALLS_A_ROUND):
        decide()
    elapsed_s = time.perf_counter() - started_s
    spent = spent_on(link, commands) - before
    return spent.usec / CALLS_A_ROUND, CALLS_A_ROUND / elapsed_s


def report(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def run_contest(args: argparse.Namespace) -> str:
    """Measure all limiters on one scratch server, then decisions while it is stopped."""
    with scratch_server() as server:
        link = NodeLink("127.0.0.1", server.port, Credentials())
        with our_limiter(server, BUDGET_MS) as limiter:
            contenders = all_contenders(limiter, server.port)
            results = measure(server.client, link, contenders, args.repeats * ROUNDS_A_REPEAT)
        link.close()
        outage = measure_outage(server.port, server.pid)
    headers = measure_headers()
    if args.output == "json":
        return json.dumps(as_json(results) | {"outage": outage.to_json(), "headers": headers.to_json()}, indent=2)
    return f"{as_text(results)}\n\n{outage}\n{headers}"


def main() -> int:
    """Measure, print, and leave nothing running."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        print(run_contest(parse_args()))
    except ContestError as error:
        report(f"benchmark: {error}")
        return 1
    except KeyboardInterrupt:
        report("benchmark: interrupted; all processes were ended")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
