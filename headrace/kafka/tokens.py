"""Tokens of OAUTHBEARER that this process gets itself, and what fails about them at present.

librdkafka asks for another when four fifths of a token's life are over, in a thread of its own, so that idle
clients have one as well; where that fails it asks again ten seconds later, and uses the old one to its end.
"""

import base64
import binascii
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Protocol

import msgspec
import structlog
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest

from headrace.aws.aws_credentials import SigningCredentials
from headrace.model.errors import AccessDenied
from headrace.options.settings import KafkaSettings
from headrace.options.token_logins import CONFIG, IamLogin, TokenFile, TokenLogin, token_login

_log = structlog.get_logger(__name__)

# What IAM itself allows, and AWS's own libraries ask for.
_IAM_SECONDS: Final = 900
_USER: Final = "headrace"
# librdkafka repeats what fails every ten seconds: a failure that was not repeated for so long is over, or its
# client is.
_FAILURE_SECONDS: Final = 30.0

Token = tuple[str, float, str]
"""A token, when it ends (seconds since 1970), and whose it is."""


class TokenSource(Protocol):
    """Where tokens come from."""

    def token(self) -> Token:
        """One of now; may block. AccessDenied when there is none."""


class IamSignature:
    """A request to MSK, signed and never sent: its address is the token."""

    def __init__(self, login: IamLogin) -> None:
        self._credentials = SigningCredentials(
            login.credentials, region=login.sts_region, ca_bundle=login.ca_bundle
        )
        self._region = login.region

    def token(self) -> Token:
        """See `TokenSource.token`."""
        # Brokers refuse the keys that a file had before with words of their own, in the thread of a client.
        self._credentials.forget_lasting()
        keys = self._credentials.get_frozen_credentials()
        request = AWSRequest(
            "GET", f"https://kafka.{self._region}.amazonaws.com/?Action=kafka-cluster%3AConnect"
        )
        signed_at = time.time()
        SigV4QueryAuth(keys, "kafka-cluster", self._region, expires=_IAM_SECONDS).add_auth(request)
        address = f"{request.url}&User-Agent={_USER}"
        text = base64.urlsafe_b64encode(address.encode()).decode().rstrip("=")
        return text, signed_at + _IAM_SECONDS, str(keys.access_key)


class _Claims(msgspec.Struct, frozen=True):
    exp: float
    sub: str = ""


class FileToken:
    """The JWT that a file holds."""

    def __init__(self, login: TokenFile) -> None:
        self._path = login.path

    def token(self) -> Token:
        """See `TokenSource.token`."""
        where = f"sasl.oauthbearer.token.endpoint.url names {self._path!r}"
        try:
            text = Path(self._path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            words = error.strerror if isinstance(error, OSError) else "it is no text"
            raise AccessDenied(f"{where}, which cannot be read: {words}.") from None
        try:
            _, body, _ = text.split(".")
            payload = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
            claims = msgspec.json.decode(payload, type=_Claims)
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            raise AccessDenied(f"{where}, which holds no JSON Web Token with an end (exp).") from None
        if claims.exp <= time.time():
            raise AccessDenied(
                f"{where}, whose token has ended {time.time() - claims.exp:.0f} s ago: renew the file."
            )
        return text, claims.exp, claims.sub


class _Failures:
    """The sentences for log-ins that could not be renewed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[float, str]] = {}

    def note(self, login: str, sentence: str | None) -> None:
        """Take what became of a renewal; None: it worked."""
        with self._lock:
            if sentence is None:
                self._found.pop(login, None)
            else:
                self._found[login] = (time.monotonic(), sentence)

    def __bool__(self) -> bool:
        return bool(self._found)

    def of(self, login: str | None) -> str | None:
        """What fails about this log-in at present."""
        with self._lock:
            at, sentence = self._found.get(login or "", (0.0, ""))
        return sentence if sentence and time.monotonic() - at < _FAILURE_SECONDS else None


_failures: Final = _Failures()


class TokenCallback:
    """What librdkafka calls for tokens (`oauth_cb`), from a thread of each client. Made with one already.

    AccessDenied, from the constructor, when there is none: a client without one would wait for ten seconds
    and then say less.
    """

    def __init__(self, login: str, source: TokenSource) -> None:
        self._login = login
        self._source = source
        self._first: Token | None = self._renewed()

    def __call__(self, _config: str | None) -> tuple[str, float, str, Mapping[str, str]]:
        """The one that it was made with, then another each time."""
        first, self._first = self._first, None
        text, end, user = first or self._renewed()
        return text, end, user, {}

    def _renewed(self) -> Token:
        try:
            token = self._source.token()
        except AccessDenied as error:
            sentence = f"Kafka: no token to log in with. {error}"
            if _failures.of(self._login) != sentence:
                _log.warning("token_refused", error=sentence)
            _failures.note(self._login, sentence)
            raise AccessDenied(sentence) from None
        _failures.note(self._login, None)
        return token


def token_callback(properties: Mapping[str, object]) -> TokenCallback | None:
    """What gets tokens for a client with these properties; None where librdkafka does, or needs none.

    AccessDenied when there is none.
    """
    login = token_login(properties)
    return None if login is None else TokenCallback(str(properties[CONFIG]), _source(login))


def login_problem(kafka: KafkaSettings) -> dict[str, str]:
    """What fails at present about the log-ins of a connector's clients in this process, as problems."""
    if not _failures:
        return {}
    logins = {one.get(CONFIG) for one in (kafka.client("consumer"), kafka.client("producer"))}
    sentences = {sentence for login in logins if (sentence := _failures.of(login)) is not None}
    return {"log-in": " ".join(sorted(sentences))} if sentences else {}


@cache
def _source(login: TokenLogin) -> TokenSource:
    """One for all clients of a log-in: a role is assumed once."""
    return IamSignature(login) if isinstance(login, IamLogin) else FileToken(login)
