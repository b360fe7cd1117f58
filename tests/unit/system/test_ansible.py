import stat
from dataclasses import replace
from pathlib import Path

import pytest

from rlctl.errors import Unreachable
from rlctl.system import ansible
from rlctl.system.ansible import AnsibleSettings, Playbook, playbook_argv, playbook_environment, run_playbook
from rlctl.system.process import OWN_PYTHON

CALL = Playbook(path=Path("/p/place.yml"), inventory=Path("/i/hosts.yml"), hosts=["h1", "h2"], variables={"a": "b"})
SETTINGS = AnsibleSettings(home=Path("/home/state"), sockets=Path("/run/x"))


def test_variables_never_stand_in_the_command_line() -> None:
    argv = playbook_argv(CALL, Path("/v/variables.json"))
    assert tuple(argv[:2]) == OWN_PYTHON
    assert argv[4:] == [
        *("playbook", "/p/place.yml", "--inventory", "/i/hosts.yml"),
        *("--limit", "h1,h2", "--extra-vars", "@/v/variables.json"),
    ]


def test_what_an_operator_set_for_ansible_does_not_reach_the_playbooks() -> None:
    own = {"ANSIBLE_HOST_KEY_CHECKING": "False", "ANSIBLE_STDOUT_CALLBACK": "json", "SSH_AUTH_SOCK": "/agent"}
    environment = playbook_environment(own, CALL, SETTINGS, Path("/v"))
    assert environment["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert "ANSIBLE_STDOUT_CALLBACK" not in environment
    assert environment["SSH_AUTH_SOCK"] == "/agent"
    assert environment["RLCTL_HOME"] == "/home/state"
    assert environment["ANSIBLE_CONFIG"] == "/p/ansible.cfg"


def test_keys_of_vaults_reach_the_playbooks() -> None:
    own = {"ANSIBLE_VAULT_PASSWORD_FILE": "/key", "ANSIBLE_VAULT_IDENTITY_LIST": "a@/a,b@/b"}
    assert own.items() <= playbook_environment(own, CALL, SETTINGS, Path("/v")).items()


def test_what_a_run_keeps_for_itself_lies_privately_in_the_fleets_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []

    def refuse(_argv: object, environment: dict[str, str], log: Path) -> None:
        assert environment["RLCTL_EVENTS"] == str(log.parent / "events")
        seen.extend((str(path.parent), stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.iterdir())
        raise Unreachable("no Ansible here")

    monkeypatch.setattr(ansible, "_start", refuse)
    with pytest.raises(Unreachable, match="no Ansible here"):
        run_playbook(replace(CALL, inventory=tmp_path / "hosts.yml"), SETTINGS, print, lambda: None)
    assert seen == [(str(tmp_path), 0o700)]
    assert list(tmp_path.iterdir()) == []
