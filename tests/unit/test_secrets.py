"""Secrets: the file format, invalid files, and that no password appears in logs."""

import json
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rlctl.errors import Exit, InvalidFile
from rlctl.secrets import (
    Authority,
    FleetSecrets,
    Secret,
    User,
    extends,
    from_text,
    generate,
    to_text,
    with_services,
)

PATH = Path("secrets.json")
AUTHORITY = Authority(certificate="-----BEGIN CERTIFICATE-----\n", key=Secret("-----BEGIN PRIVATE KEY-----\n"))
WORD = "hidden-hidden-hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    token: Secret


def document(**changed: Any) -> dict[str, Any]:
    return {**json.loads(to_text(generate("limiter", AUTHORITY))), **changed}


def with_password(password: object) -> dict[str, Any]:
    users = {user.value: "good-enough-password" for user in User} | {"limiter": password}
    return document(users=users)


@pytest.mark.parametrize("authority", [None, AUTHORITY], ids=["plain", "tls"])
def test_round_trip(authority: Authority | None) -> None:
    secrets = generate("limiter", authority)
    assert from_text(to_text(secrets), PATH) == secrets


def test_services_are_added_and_removed_without_changing_others() -> None:
    bare = generate("limiter", None)
    one = with_services(bare, ["checkout"])
    two = with_services(one, ["search", "checkout"])
    assert list(two.services) == ["checkout", "search"]
    assert two.services["checkout"] == one.services["checkout"] != two.services["search"]
    assert replace(two, services={}) == bare
    assert from_text(to_text(two), PATH) == two
    assert with_services(two, ["search"]).services == {"search": two.services["search"]}
    again = with_services(with_services(one, []), ["checkout"])
    assert again.services["checkout"] != one.services["checkout"]


def test_a_file_without_services_is_read() -> None:
    assert "services" not in document()
    assert from_text(json.dumps(document()), PATH).services == {}


def test_further_services_extend_secrets_and_other_passwords_do_not() -> None:
    own = with_services(generate("limiter", None), ["checkout"])
    more = with_services(own, ["checkout", "search"])
    assert extends(own, own)
    assert extends(more, own)
    assert not extends(own, more)
    assert not extends(with_services(with_services(own, []), ["checkout"]), own)
    assert not extends(with_services(generate("limiter", None), ["checkout"]), own)


@pytest.mark.parametrize(
    ("services", "message"),
    [
        pytest.param(None, "services must map service names to passwords", id="null"),
        pytest.param(["checkout"], "services must map service names to passwords", id="list"),
        pytest.param({"a b": WORD}, "services must map service names to passwords", id="name"),
        pytest.param(
            {"a": "short"}, "the password of a must have 16 to 200 characters of A-Z, a-z, 0-9, _ and -", id="short"
        ),
    ],
)
def test_passwords_of_services_that_are_refused(services: object, message: str) -> None:
    with pytest.raises(InvalidFile, match=message) as refused:
        from_text(json.dumps(document(services=services)), PATH)
    assert WORD not in str(refused.value)


def test_generated_secrets_are_their_own() -> None:
    one, two = generate("limiter", None), generate("limiter", None)
    assert one.fleet_id != two.fleet_id
    passwords = [secrets.password(user).reveal() for secrets in (one, two) for user in User]
    assert len(set(passwords)) == 2 * len(User)
    assert all(len(password) >= 40 for password in passwords)


def test_the_file_form_is_stable() -> None:
    written = json.loads(to_text(generate("limiter", None)))
    assert list(written) == ["version", "name", "fleet_id", "users", "tls"]
    assert list(written["users"]) == ["rlctl", "limiter", "replica", "sentinel", "monitor"]
    assert (written["version"], written["tls"]) == (1, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "secrets.json:1: not a secrets file: Expecting value", id="empty"),
        pytest.param('{\n"version": 1,\n', "secrets.json:3: not a secrets file: ", id="torn"),
        pytest.param("[1]", "secrets.json:1: not a secrets file: ", id="a list"),
        pytest.param("null", "secrets.json:1: not a secrets file: ", id="null"),
        pytest.param("{}", "secrets.json:1: not a secrets file: 'version' is missing", id="no keys"),
        pytest.param("[" * 100_000, "secrets.json:1: not a secrets file: nested too deeply", id="deep"),
        pytest.param(
            json.dumps(document(version=2)),
            "its version is 2, and this rlctl reads only version 1",
            id="a newer version",
        ),
        pytest.param(
            json.dumps(document(version="1")),
            "its version is '1', and this rlctl reads only version 1",
            id="a version in quotes",
        ),
        pytest.param(
            json.dumps(document(fleet_id="abc")), "fleet_id must be 40 lower-case hexadecimal digits", id="a short id"
        ),
        pytest.param(
            json.dumps(document(fleet_id=7)), "fleet_id must be 40 lower-case hexadecimal digits", id="a number"
        ),
        pytest.param(json.dumps(document(users={})), "'rlctl' is missing", id="no users"),
        pytest.param(json.dumps(document(users=[])), "secrets.json:1: not a secrets file: ", id="a list of users"),
        pytest.param(json.dumps(document(tls={})), "'ca_certificate' is missing", id="no certificate"),
        pytest.param(json.dumps(document(tls="x")), "secrets.json:1: not a secrets file: ", id="tls is a text"),
    ],
)
def test_garbage(text: str, message: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        from_text(text, PATH)
    assert message in caught.value.message
    assert caught.value.exit_code is Exit.INVALID_FILE


@pytest.mark.parametrize(
    "password",
    [
        pytest.param("", id="empty"),
        pytest.param("a" * 15, id="short"),
        pytest.param("a" * 201, id="long"),
        pytest.param("with a space inside it", id="space"),
        pytest.param('quote"quote"quote"', id="quote"),
        pytest.param("new\nline-new-line-new", id="line break"),
        pytest.param("ümlaut-ümlaut-ümlaut", id="not ascii"),
        pytest.param("good-enough-password\n", id="line break at the end"),
        pytest.param(1234567890123456, id="a number"),
        pytest.param(None, id="null"),
    ],
)
def test_a_password_that_configuration_could_not_hold(password: object) -> None:
    with pytest.raises(InvalidFile) as caught:
        from_text(json.dumps(with_password(password)), PATH)
    assert caught.value.message.endswith(
        "the password of limiter must have 16 to 200 characters of A-Z, a-z, 0-9, _ and -"
    )
    assert not password or str(password) not in caught.value.message


@pytest.mark.parametrize("password", ["a" * 16, "a" * 200, "Az09_-Az09_-Az09"], ids=["least", "most", "all kinds"])
def test_a_password_that_is_good(password: str) -> None:
    assert from_text(json.dumps(with_password(password)), PATH).password(User.LIMITER).reveal() == password


@pytest.mark.parametrize("form", ["{0}", "{0!r}", "{0!s}", "{0:>40}"], ids=["plain", "repr", "str", "padded"])
def test_no_way_of_printing_shows_it(form: str) -> None:
    if ":>" in form:
        with pytest.raises(TypeError):
            form.format(Secret(WORD))
        return
    assert form.format(Secret(WORD)) == "Secret(***)"


def test_dataclasses_do_not_show_it() -> None:
    assert repr(Holder(token=Secret(WORD))) == "Holder(token=Secret(***))"
    secrets = replace(generate("limiter", AUTHORITY), passwords={User.ADMIN: Secret(WORD)})
    shown = f"{secrets} {secrets!r} {[secrets]}"
    assert WORD not in shown
    assert "PRIVATE KEY" not in shown


def test_a_traceback_with_locals_does_not_show_it() -> None:
    def fail(token: Secret, holder: Holder) -> None:
        raise ValueError(f"cannot use {token} of {holder}")

    try:
        fail(Secret(WORD), Holder(token=Secret(WORD)))
    except ValueError as failure:
        shown = "".join(traceback.TracebackException.from_exception(failure, capture_locals=True).format())
    assert "token = Secret(***)" in shown
    assert WORD not in shown.replace(f"WORD = '{WORD}'", "")


def test_a_secret_equals_its_like() -> None:
    assert Secret(WORD) == Secret(WORD)
    assert Secret(WORD) != Secret("another")
    assert Secret(WORD) != WORD
    assert Secret("ümlaut") == Secret("ümlaut")
    assert len({Secret(WORD), Secret(WORD)}) == 1


def test_a_secret_is_kept_as_its_hash_in_acl_files() -> None:
    assert Secret("abc").sha256() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_fleets_have_a_password_for_every_user() -> None:
    secrets = generate("limiter", None)
    assert isinstance(secrets, FleetSecrets)
    assert {user: bool(secrets.password(user).reveal()) for user in User} == dict.fromkeys(User, True)
