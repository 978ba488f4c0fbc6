"""Who may use the REST interface: users and passwords of `rest.auth.file`, by HTTP's basic authentication.

It is read again when it changes, so a password can be changed while the process runs. One that cannot be
read for a moment (it is being replaced, its volume is mounted again) changes nothing.
"""

import base64
import binascii
import hmac
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Final

import structlog

from headrace.model.errors import InvalidConfiguration
from headrace.process.own_process import open_regular
from ingest.http.http_server import Response
from ingest.http.rest.router import error_response

_log = structlog.get_logger(__name__)

_MAX_BYTES: Final = 1024 * 1024
INTERNAL: Final = "/internal/"
"""Where workers of a group report to the one that leads that they are alive."""
WORKERS: Final = b"headrace-workers"
"""The user as which workers talk to each other where the file has it; no other one may then do so."""
_CHALLENGE: Final = (("WWW-Authenticate", 'Basic realm="headrace", charset="UTF-8"'),)

# As often is the file looked at, and for so long what is wrong with it is taken for a moment's.
_LOOK_SECONDS: Final = 1.0
_MOMENT_SECONDS: Final = 60.0
# Files are not replaced on all machines at once: until then workers still know each other by what was before.
_FORMER_SECONDS: Final = 900.0


class InvalidAuthFile(InvalidConfiguration):
    """`rest.auth.file` cannot be used: a configuration error."""


@dataclass(frozen=True, slots=True, repr=False)
class Accounts:
    """Passwords by user, both as bytes; it shows neither."""

    passwords: Mapping[bytes, bytes]

    def of_workers(self) -> "Accounts":
        """Those of who may speak as a worker: of every user where none is kept for them."""
        kept = self.passwords.get(WORKERS)
        return self if kept is None else Accounts({WORKERS: kept})

    def admit(self, headers: Message) -> Response | None:
        """None for who proves to be one of the users, else 401."""
        found = _credentials(str(headers.get("Authorization", "")))
        if found is not None:
            user, password = found
            # Compared for unknown users too, so that the time does not reveal which users there are.
            known = self.passwords.get(user)
            if hmac.compare_digest(known or b"", password) and known is not None:
                return None
        refusal = error_response(HTTPStatus.UNAUTHORIZED, "User cannot access the resource.")
        return Response(refusal.status, refusal.content_type, refusal.body, headers=_CHALLENGE)


def read_accounts(path: str) -> Accounts:
    """The accounts of a file with lines of `user:password`; blank lines and those with `#` do not count.

    InvalidAuthFile, without a word of what is in it, when it cannot be read, says nothing, or everybody may
    read it.
    """
    try:
        with open_regular(path) as file:
            about = os.fstat(file.fileno())
            if about.st_mode & stat.S_IROTH:
                raise _unfit(path, "everybody on this machine may read it; take that right away (chmod o-r)")
            text = file.read(_MAX_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise _unfit(path, f"it cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _unfit(path, "it is not UTF-8") from error
    passwords: dict[bytes, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, colon, password = line.partition(":")
        if not (user and colon and password):
            raise _unfit(path, f"line {number} is not user:password")
        if user.encode() in passwords:
            raise _unfit(path, f"line {number} names a user for the second time")
        passwords[user.encode()] = password.encode()
    if not passwords:
        raise _unfit(path, "there is no user in it")
    return Accounts(passwords)


class AuthFile:
    """The accounts of a file as they are now. Thread-safe. InvalidAuthFile when it cannot be used at all."""

    def __init__(self, path: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._version = _version(path)
        self._accounts = read_accounts(path)
        self._former: tuple[Accounts, float] | None = None
        self._looked = clock()
        self._failure: tuple[str, float] | None = None

    def admit(self, path: str, headers: Message) -> Response | None:
        """None for who proves to be one of the users, else 401.

        Where workers report that they are alive, one that still has the former file is admitted, too, and
        no other user than theirs.
        """
        known = self._known()
        is_of_worker = path.startswith(INTERNAL)
        asked = [one.of_workers() for one in known] if is_of_worker else known[:1]
        refusals = [accounts.admit(headers) for accounts in asked]
        return None if None in refusals else refusals[0]

    def authorizations(self) -> list[str]:
        """The `Authorization`s with which workers of one group talk to each other, the one of now first."""
        return [_first_account(accounts.of_workers()) for accounts in self._known()]

    @property
    def problem(self) -> str | None:
        """Why the file cannot be read, when it has been so for a minute."""
        self._known()
        failure = self._failure
        if failure is None or self._clock() - failure[1] < _MOMENT_SECONDS:
            return None
        return f"{failure[0]} The users read before are in force until it can be read; a restart would fail."

    def _known(self) -> list[Accounts]:
        """The accounts of now, and those of before while other workers may not have the new file yet."""
        with self._lock:
            now = self._clock()
            if now - self._looked >= _LOOK_SECONDS:
                self._looked = now
                self._look(now)
            if self._former is not None and now >= self._former[1]:
                self._former = None
            return [self._accounts, *([] if self._former is None else [self._former[0]])]

    def _look(self, now: float) -> None:
        version = _version(self._path)
        if version is not None and version == self._version:
            self._failure = None
            return
        try:
            read = read_accounts(self._path)
        except InvalidAuthFile as error:
            if self._failure is None:
                _log.warning(
                    "auth_file_not_read", error=str(error), detail="the users read before are in force"
                )
                self._failure = (str(error), now)
            return
        self._failure, self._version = None, version
        if read.passwords != self._accounts.passwords:
            self._former = (self._accounts, now + _FORMER_SECONDS)
            self._accounts = read
            _log.info("auth_file_read", users=len(read.passwords))


def _version(path: str) -> tuple[int, ...] | None:
    """What changes with the file; None where it cannot be told."""
    try:
        about = Path(path).stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _first_account(accounts: Accounts) -> str:
    user, password = next(iter(accounts.passwords.items()))
    return f"Basic {base64.b64encode(user + b':' + password).decode()}"


def _unfit(path: str, why: str) -> InvalidAuthFile:
    return InvalidAuthFile(f"rest.auth.file = {path!r}: {why}. It holds a line user:password for each user.")


def _credentials(header: str) -> tuple[bytes, bytes] | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None
