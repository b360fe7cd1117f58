"""Locks after a fork: a thread of the parent may have held one, and no thread of the child would ever release it."""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object with locks."""

    def after_fork(self) -> None:
        """Replace the locks; called in the child, where no other thread runs yet."""


_owners: WeakSet[Forkable] = WeakSet()


def renew_after_fork(owner: Forkable) -> None:
    """Have `owner.after_fork` called in every child process, as long as the owner lives."""
    _owners.add(owner)


def _renew() -> None:
    for owner in tuple(_owners):
        owner.after_fork()


os.register_at_fork(after_in_child=_renew)
