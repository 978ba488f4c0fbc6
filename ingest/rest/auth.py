"""Who may use the REST interface: users and passwords of `rest.auth.file`, by HTTP's basic authentication."""

import base64
import binascii
import hmac
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Final

from ingest.errors import InvalidConfiguration
from ingest.http import Response
from ingest.rest.shapes import error_response

_MAX_BYTES: Final = 1024 * 1024
_CHALLENGE: Final = (("WWW-Authenticate", 'Basic realm="headrace", charset="UTF-8"'),)


class InvalidAuthFile(InvalidConfiguration):
    """`rest.auth.file` cannot be used: a configuration error."""


@dataclass(frozen=True, slots=True, repr=False)
class Accounts:
    """Passwords by user, both as bytes; it shows neither."""

    passwords: Mapping[bytes, bytes]

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
        with Path(path).open("rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise _unfit(path, "it is no file")
            if about.st_mode & stat.S_IROTH:
                raise _unfit(path, "everybody on this machine may read it; take that right away (chmod o-r)")
            text = file.read(_MAX_BYTES).decode()
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


def first_account(accounts: Accounts) -> str:
    """The `Authorization` of the first of the users: with it workers of one group talk to each other."""
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
