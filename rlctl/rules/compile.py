"""Compiles rule definitions into a rule set: chooses each rule's script, and computes the script's arguments. Pure."""

from collections.abc import Sequence

from rlctl.errors import NotFound
from rlctl.files.mistakes import Mistakes
from rlctl.limits.algorithms import ALGORITHMS
from rlctl.limits.release import Release, Script
from rlctl.limits.rule import Definition, Rule, RuleSet, ScriptRef
from rlctl.rules.load import HINT, RulesFile


def compile_file(file: RulesFile, release: Release) -> RuleSet:
    """Compile the rules of a file; InvalidFile if the release lacks the script of a rule."""
    mistakes = Mistakes(file.path, hint=HINT)
    for definition in file.definitions:
        if _script(definition, release) is None:
            mistakes.add(file.lines[definition.id], _no_script(definition, release))
    mistakes.raise_any()
    return RuleSet(rules=compile_rules(file.definitions, release), release=release.version)


def compile_rules(definitions: Sequence[Definition], release: Release) -> tuple[Rule, ...]:
    """Compile definitions in order; InvalidLimit if a script would refuse their parameters."""
    return tuple(_rule(definition, release) for definition in definitions)


def _rule(definition: Definition, release: Release) -> Rule:
    script = _script(definition, release)
    if script is None:
        raise NotFound(_no_script(definition, release), hint="`rlctl scripts list` shows the scripts of this release")
    kind = ALGORITHMS[definition.algorithm]
    return Rule(
        definition=definition,
        script=ScriptRef(version=script.version, sha1=script.sha1, state=script.state, args=script.args),
        arguments={
            (tier, in_canary): kind(**definition.effective(tier, in_canary=in_canary)).arguments()
            for tier, in_canary in definition.variants()
        },
    )


def _script(definition: Definition, release: Release) -> Script | None:
    if definition.pin is None:
        return release.script(definition.algorithm)
    versions = release.loadable(definition.algorithm)
    return next((one for one in versions if one.version == definition.pin), None)


def _no_script(definition: Definition, release: Release) -> str:
    if definition.pin is None:
        return f"release {release.version} has no script {definition.algorithm}"
    versions = ", ".join(one.version for one in release.loadable(definition.algorithm))
    script = f"{definition.algorithm} {definition.pin}"
    return f"script: release {release.version} does not load {script}; use one of {versions}"
