"""Unit tests may not open a socket or start a process."""

import socket
import subprocess
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def _no_effects(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        raise AssertionError("a unit test tried to open a socket or start a process")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
