"""Rules files and sets that tests start from."""

from rlctl.limits.rule import Revision, RuleSet
from rlctl.rules.compile import compile_file
from rlctl.rules.load import load_rules
from rlctl.scripts.release import load_release

RELEASE = load_release()
EXAMPLE = """\
version: 1
rules:
  - id: api-per-key
    algorithm: sliding_counter
    limit: 1000
    window: 60s
    key: "apikey:{api_key}"
    tiers: {free: {limit: 100}, enterprise: {limit: 10000}}
    on_failure: open
    canary: {percent: 10, limit: 800}
"""
EVERY = """\
version: 1
rules:
  - {id: bucket, algorithm: token_bucket, limit: 10, rate: 100/60s, key: "{user}", owner: payments}
  - {id: meter, algorithm: gcra, burst: 5, rate: 5, period: 1s, key: "{user}:{endpoint}", match: {endpoint: [/a, /b*]}}
  - {id: fixed, algorithm: fixed_window, limit: 3, window: 1h, key: ["apikey:{api_key}", "ip:{ip}"]}
  - {id: counter, algorithm: sliding_counter, limit: 1000, window: 60s, key: "{user}", shadow: true, script: 1.0.1}
  - {id: log, algorithm: rolling_window, limit: 100, window: 60s, min_interval: 10ms, key: "{user}"}
  - {id: ring, algorithm: rolling_ring, limit: 100, window: 60s, key: "{user}", on_failure: "local:4"}
  - {id: jobs, algorithm: concurrent, limit: 20, lease: 30s, key: "{user}", class: security}
"""


def rule_set(text: str) -> RuleSet:
    return compile_file(load_rules(text.encode(), "rules.yaml"), RELEASE)


def revision(text: str, number: int = 1, parent: int | None = None) -> Revision:
    return Revision(number=number, parent=parent, rules=rule_set(text), by="ada", at="2026-01-01T00:00:00", why="apply")
