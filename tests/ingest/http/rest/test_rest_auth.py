"""Who may use the REST interface, and the file that says so."""

import base64
import os
from email.message import Message
from pathlib import Path

import pytest

from headrace.model.errors import Exit, exit_code
from ingest.http.rest.auth import AuthFile, InvalidAuthFile, read_accounts
from tests.support.instants import MovedClock


def _file(folder: Path, text: bytes, mode: int = 0o600) -> str:
    path = folder / "accounts"
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


def _headers(value: str | None) -> Message:
    headers = Message()
    if value is not None:
        headers["Authorization"] = value
    return headers


def _basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "may"),
    [
        pytest.param(_basic("ann:one:two"), True, id="right, with a colon in the password"),
        pytest.param(_basic("bob:zwölf"), True, id="right, beyond ASCII"),
        pytest.param(_basic("ann:one:two").replace("Basic", "bAsIc"), True, id="the scheme in any case"),
        pytest.param(_basic("ann:one"), False, id="wrong password"),
        pytest.param(_basic("ann:"), False, id="empty password"),
        pytest.param(_basic("eve:one:two"), False, id="unknown user"),
        pytest.param(_basic("eve:"), False, id="unknown user, empty password"),
        pytest.param(_basic("ann"), False, id="no colon"),
        pytest.param("Basic ???", False, id="no base64"),
        pytest.param("Bearer x", False, id="another scheme"),
        pytest.param("", False, id="empty"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_who_may_ask(tmp_path: Path, header: str | None, *, may: bool) -> None:
    """Everybody else gets 401, and is asked to say who they are."""
    accounts = read_accounts(_file(tmp_path, "# people\n\nann:one:two\r\nbob:zwölf\n".encode()))

    refusal = accounts.admit(_headers(header))

    if may:
        assert refusal is None
    else:
        assert refusal is not None
        assert refusal.status == 401
        assert dict(refusal.headers)["WWW-Authenticate"].startswith("Basic realm=")


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        pytest.param(b"ann:secret1\n", 0o644, "everybody on this machine may read it", id="world-readable"),
        pytest.param(b"ann secret1\n", 0o600, "line 1 is not user:password", id="no colon"),
        pytest.param(b"# x\nann:\n", 0o600, "line 2 is not user:password", id="no password"),
        pytest.param(b":secret1\n", 0o600, "line 1 is not user:password", id="no user"),
        pytest.param(b"ann:a\nann:b\n", 0o600, "line 2 names a user for the second time", id="twice"),
        pytest.param(b"\n# nobody\n", 0o600, "there is no user in it", id="nobody"),
        pytest.param(b"ann:\xff\n", 0o600, "it is not UTF-8", id="not utf-8"),
    ],
)
def test_a_file_that_will_not_do_is_a_configuration_error(
    tmp_path: Path, text: bytes, mode: int, why: str
) -> None:
    """It says why and never what is in the file."""
    path = _file(tmp_path, text, mode)

    with pytest.raises(InvalidAuthFile) as caught:
        read_accounts(path)

    assert str(caught.value).startswith(f"rest.auth.file = {path!r}: {why}")
    assert "secret1" not in str(caught.value)
    assert exit_code(caught.value) is Exit.CONFIGURATION


@pytest.mark.parametrize(("name", "why"), [("gone", "No such file"), (".", "Is a directory")])
def test_a_file_that_is_not_there(tmp_path: Path, name: str, why: str) -> None:
    """The reason is the system's."""
    with pytest.raises(InvalidAuthFile, match=why):
        read_accounts(str(tmp_path / name))


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfann:secret1\n", b"\xef\xbb\xbf# users\nann:secret1\n"])
def test_a_byte_order_mark_belongs_to_no_user(tmp_path: Path, text: bytes) -> None:
    """Editors put it before the first line, whose user could not log in."""
    assert read_accounts(_file(tmp_path, text)).admit(_headers(_basic("ann:secret1"))) is None


def test_a_pipe_is_no_file_of_accounts(tmp_path: Path) -> None:
    """It is not waited for."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(InvalidAuthFile, match="it is no file"):
        read_accounts(str(tmp_path / "pipe"))


def test_accounts_do_not_show_themselves(tmp_path: Path) -> None:
    """A repr may end up in a log."""
    assert "secret1" not in repr(read_accounts(_file(tmp_path, b"ann:secret1\n")))


def test_a_file_that_cannot_be_read_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    """Who was admitted is admitted; it becomes a problem when it lasts, and is none once the file is back."""
    path, clock = _file(tmp_path, b"ann:one\n"), MovedClock()
    auth = AuthFile(path, clock=clock)
    Path(path).rename(tmp_path / "away")
    clock.now = 10.0

    assert auth.admit("/connectors", _headers(_basic("ann:one"))) is None
    assert auth.authorizations() == [_basic("ann:one")]
    assert auth.problem is None
    clock.now = 80.0
    assert "No such file" in str(auth.problem)
    assert "a restart would fail" in str(auth.problem)

    (tmp_path / "away").rename(path)
    clock.now = 82.0
    assert auth.problem is None


def test_a_changed_password_holds_at_once_and_workers_still_know_each_other(tmp_path: Path) -> None:
    """For a quarter of an hour the former one says that a worker lives, and nothing else."""
    path, clock = _file(tmp_path, b"ann:one\n"), MovedClock()
    auth = AuthFile(path, clock=clock)
    _file(tmp_path, b"ann:another\n")
    clock.now = 2.0

    assert auth.admit("/connectors", _headers(_basic("ann:another"))) is None
    assert auth.admit("/connectors", _headers(_basic("ann:one"))) is not None
    assert auth.admit("/internal/workers/w", _headers(_basic("ann:one"))) is None
    assert auth.admit("/internal/workers/w", _headers(_basic("ann:none"))) is not None
    assert auth.authorizations() == [_basic("ann:another"), _basic("ann:one")]

    clock.now = 1000.0
    assert auth.admit("/internal/workers/w", _headers(_basic("ann:one"))) is not None
    assert auth.authorizations() == [_basic("ann:another")]


def test_a_user_that_is_kept_for_workers_is_the_only_one_to_register_them(tmp_path: Path) -> None:
    """In whatever line; what was before such a user came is known for as long as any former file."""
    path, clock = _file(tmp_path, b"ann:one\n"), MovedClock()
    auth = AuthFile(path, clock=clock)
    _file(tmp_path, b"ann:one\nheadrace-workers:w\n")
    clock.now = 2.0
    assert auth.admit("/internal/workers/w", _headers(_basic("ann:one"))) is None
    assert auth.authorizations() == [_basic("headrace-workers:w"), _basic("ann:one")]

    clock.now = 1000.0
    for user, may in (("ann:one", False), ("headrace-workers:x", False), ("headrace-workers:w", True)):
        assert (auth.admit("/internal/workers/w", _headers(_basic(user))) is None) is may
    assert auth.admit("/connectors", _headers(_basic("ann:one"))) is None
    assert auth.authorizations() == [_basic("headrace-workers:w")]


def test_a_file_that_everybody_may_read_by_now_is_not_taken(tmp_path: Path) -> None:
    """The users of before stay, and the problem names the remedy."""
    path, clock = _file(tmp_path, b"ann:one\n"), MovedClock()
    auth = AuthFile(path, clock=clock)
    _file(tmp_path, b"eve:two\n", mode=0o644)
    clock.now = 2.0
    assert auth.admit("/", _headers(_basic("eve:two"))) is not None
    clock.now = 63.0
    assert "chmod o-r" in str(auth.problem)
