"""Renews locks in the child after a fork.

Otherwise the child would wait forever for a lock that another thread held in the parent.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with locks."""

    def after_fork(self) -> None:
        """Replace the locks; called in the child, where no other thread runs yet."""


_owners: WeakSet[Forkable] = WeakSet()


def renew_after_fork(owner: Forkable) -> None:
    """Call `owner.after_fork` in every child process that is forked while the owner exists."""
    _owners.add(owner)


def _renew() -> None:
    for owner in tuple(_owners):
        owner.after_fork()


os.register_at_fork(after_in_child=_renew)
