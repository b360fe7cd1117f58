"""The configuration that a server is tried with: directives of the topology on a server that no one can reach. Pure."""

from collections.abc import Iterable

from rlctl.render.text import Directive, conf_text

# Last, so that they win. The server keeps to its working folder, listens on a socket there, and says when it is ready.
_OWN: tuple[Directive, ...] = (
    ("port", "0"),
    ("unixsocket", "trial.sock"),
    ("unixsocketperm", "700"),
    ("save", '""'),
    ("appendonly", "no"),
    ("loglevel", "notice"),
    ("logfile", '""'),
    ("daemonize", "no"),
)


def trial_conf(directives: Iterable[Directive]) -> str:
    """The file's text; it holds no secret."""
    return conf_text([*directives, *_OWN])
