"""Ansible module: tests whether units with this sandbox start with PrivateUsers=yes, even in check mode."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rlctl_private_users
short_description: Try PrivateUsers=yes
description:
  - Runs C(true) as a transient unit with C(sandbox) and C(PrivateUsers=yes), which leaves nothing behind. If the unit
    ends with 217/USER, but works with C(PrivateUsers=no), the host does not allow user namespaces for these units.
  - Tries the whole sandbox, since many containers allow a user namespace alone, but not together with C(ProtectProc).
options:
  sandbox: {type: str, required: true, description: "lines of a [Service] section"}
author: [rlctl]
"""

EXAMPLES = r"""
- name: Try user namespaces
  rlctl_private_users: {sandbox: "{{ redis_host_sandbox }}"}
  register: trial
"""

RETURN = r"""
possible: {type: bool, returned: always, description: whether units can start with PrivateUsers=yes}
"""

# The trial leaves these lines out: the user and its folders may not exist yet, and a restart would repeat the trial.
_LEFT_OUT = {"User", "Group", "ReadWritePaths", "Restart", "RestartSec", "TimeoutStopSec", "PrivateUsers"}
_SYSTEMD_RUN = ("systemd-run", "--wait", "--quiet", "--collect", "--description=rlctl tries PrivateUsers=")
# This user exists on every Debian system.
_USER = ("--property=User=daemon", "--property=Group=daemon")
_EXIT_USER = 217


def trial(sandbox: str, private_users: str) -> list[str]:
    """The command line that runs `true` with this sandbox."""
    lines = [line for line in sandbox.splitlines() if "=" in line and line.partition("=")[0] not in _LEFT_OUT]
    properties = [f"--property={line}" for line in (*lines, f"PrivateUsers={private_users}")]
    return [*_SYSTEMD_RUN, *_USER, *properties, "/bin/true"]


def is_possible(module: AnsibleModule) -> bool:
    """Whether the trial works. Fails the task if that is unclear: a wrong result would change the fleet's units."""
    sandbox = module.params["sandbox"]
    code, _, output = module.run_command(trial(sandbox, "yes"))
    if code == _EXIT_USER:
        # systemd ends with the same code if the user cannot be set up for another reason.
        code, _, output = module.run_command(trial(sandbox, "no"))
        if code == 0:
            return False
    if code != 0:
        module.fail_json(
            msg=f"cannot try PrivateUsers=yes for the units: systemd-run ended with {code}: {output.strip()}. "
            "Set redis_host_private_users to true or false and run again"
        )
    return True


def main() -> None:
    module = AnsibleModule(
        argument_spec={"sandbox": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    module.exit_json(changed=False, possible=is_possible(module))


if __name__ == "__main__":
    main()
