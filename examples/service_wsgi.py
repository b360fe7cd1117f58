"""A WSGI service that limits its callers by the rules of rules.yaml. One Limiter serves all threads of the process.

    umask 077
    rlctl -f examples/topology-local.yaml env --as limiter -o json > limiter.json
    python examples/service_wsgi.py limiter.json --port 8080
    curl -i -H 'X-Api-Key: ada' localhost:8080/

Any WSGI server can run `Service`; the one of the standard library is enough to try it.
"""

import argparse
import json
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from rlctl.limiter import Decision, Limiter


class Service:
    """Answers 200, or 429 with the headers that say when to try again."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Decide by every rule that applies to the request; an export also needs a lease while it runs."""
        who = caller(environ)
        decisions = self.limiter.decide_all(who)
        if not all(decision.allowed for decision in decisions) or environ["PATH_INFO"] != "/export":
            return respond(start_response, decisions)
        with self.limiter.hold("exports", who) as lease:
            return respond(start_response, (*decisions, lease))


def caller(environ: WSGIEnvironment) -> dict[str, str]:
    """Return the dimensions of a request that rules may count by."""
    who = {"ip": environ["REMOTE_ADDR"], "endpoint": environ["PATH_INFO"]}
    key = environ.get("HTTP_X_API_KEY")
    return {**who, "api_key": key} if key else who


def respond(start_response: StartResponse, decisions: Sequence[Decision]) -> Iterable[bytes]:
    """Answer with the headers of the denial, or of the rule with the least left."""
    told = strictest(decisions)
    status = "200 OK" if told is None or told.allowed else "429 Too Many Requests"
    headers = [] if told is None else list(told.headers().items())
    start_response(status, [("Content-Type", "application/json"), *headers])
    body = {"source": told.source, "reason": told.reason} if told else {}
    return [json.dumps(body).encode() + b"\n"]


def strictest(decisions: Sequence[Decision]) -> Decision | None:
    """Return the denial, or the decision with the least left; None if no rule applies to the request."""

    def left(decision: Decision) -> tuple[bool, int]:
        return decision.allowed, sys.maxsize if decision.remaining is None else decision.remaining

    return min(decisions, key=left, default=None)


class Server(ThreadingMixIn, WSGIServer):
    """A server with one thread for each connection."""

    daemon_threads = True


def main() -> None:
    """Serve until interrupted or terminated."""
    parser = argparse.ArgumentParser(description="A service that limits its callers.")
    parser.add_argument("settings", type=Path, help="what `rlctl env --as limiter -o json` printed")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--budget-ms", type=float, default=5.0, help="how long a decision may wait for Redis")
    options = parser.parse_args()
    settings = json.loads(options.settings.read_text(encoding="utf-8"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with (
        Limiter.connect(settings, policy="local:4", budget_ms=options.budget_ms, rules=True) as limiter,
        make_server("127.0.0.1", options.port, Service(limiter), server_class=Server) as server,
    ):
        print(f"running on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
