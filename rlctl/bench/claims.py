"""Compares the published accuracy of each algorithm with the result of attacks. Pure."""

from dataclasses import dataclass

from rlctl.bench.attack import WorstWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyClaim:
    """A published bound on how far a trailing window exceeds the limit. `most_over_percent` is None without a bound."""

    text: str
    most_over_percent: float | None


CLAIMS = {
    "token_bucket": AccuracyClaim(text="up to 50 % over", most_over_percent=50.0),
    "gcra": AccuracyClaim(text="none", most_over_percent=None),
    "fixed_window": AccuracyClaim(text="up to 100 % over", most_over_percent=100.0),
    "sliding_counter": AccuracyClaim(text="no exploitable boundary", most_over_percent=0.0),
    "rolling_window": AccuracyClaim(text="error below 1 %", most_over_percent=1.0),
    "rolling_ring": AccuracyClaim(text="error below 1 %", most_over_percent=1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The result of all attacks on a script."""

    script: str
    limit: int
    window_ms: int
    attacks: int
    worst: WorstWindow

    @property
    def over_percent(self) -> float:
        """Units above the limit in the worst trailing window, in percent of the limit."""
        return 100 * (self.worst.admitted - self.limit) / self.limit

    @property
    def claim(self) -> AccuracyClaim:
        return CLAIMS[self.script]

    @property
    def verdict(self) -> str:
        most = self.claim.most_over_percent
        if self.over_percent <= 0:
            return "exact"
        if most is None:
            return "nothing claimed"
        return "as claimed" if self.over_percent <= most else "worse than claimed"

    def to_json(self) -> dict[str, object]:
        attack = self.worst.attack
        return {
            "script": self.script,
            "limit": self.limit,
            "window_ms": self.window_ms,
            "attacks": self.attacks,
            "worst_admitted": self.worst.admitted,
            "over_percent": self.over_percent,
            "claim": self.claim.text,
            "claimed_over_percent": self.claim.most_over_percent,
            "holds": self.claim.most_over_percent is None or self.over_percent <= self.claim.most_over_percent,
            "verdict": self.verdict,
            "worst_attack": {
                "phase_us": attack.phase_us,
                "first_share": attack.first_share,
                "step_us": attack.step_us,
            },
        }
