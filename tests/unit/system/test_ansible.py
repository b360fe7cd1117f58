from pathlib import Path

from rlctl.system.ansible import AnsibleSettings, Playbook, playbook_argv, playbook_environment
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
