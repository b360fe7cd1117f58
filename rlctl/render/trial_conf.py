"""Configuration of a trial start, which shows whether a server accepts the directives of the topology. Pure."""

from collections.abc import Iterable

from rlctl.render.text import Directive, conf_text

# These directives come last, so that they take precedence. The server listens only on a socket in its working folder,
# keeps no data, and logs when it is ready.
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
    """The text of the configuration file, without secrets."""
    return conf_text([*directives, *_OWN])
