"""Loads scripts on a node, and verifies the returned SHA1 and SCRIPT EXISTS."""

from collections.abc import Sequence

from rlctl.limits.release import Script
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink


def load_scripts(link: NodeLink, scripts: Sequence[Script]) -> str | None:
    """Load scripts on a node; return the first error as text, or None on success."""
    try:
        answers = link.pipeline([("SCRIPT", "LOAD", script.source) for script in scripts])
        held = link.call("SCRIPT", "EXISTS", *(script.sha1 for script in scripts))
    except (LinkFailure, CommandFailed) as failure:
        return str(failure)
    for script, answer, exists in zip(scripts, answers, held, strict=True):
        if isinstance(answer, CommandFailed):
            return f"{script.name}: {answer}"
        if answer != script.sha1 or not exists:
            return f"{script.name}: the node loaded {answer}, the release has {script.sha1}"
    return None
