"""Progress that nobody watches."""


class Quiet:
    """Hears everything and says nothing."""

    def note(self, text: str) -> None:
        """Not told."""

    def step(self, number: int, of: int, text: str, outcome: str) -> None:
        """Not told."""


QUIET = Quiet()
