"""How the schema registry is asked: its client, the tokens that it wants, and who is to act upon an error.

Only what says something of a schema is a schema's fault; all else is waited for, or is the user's to correct.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, Final

from headrace.model.clock import wall_ms
from headrace.model.errors import AccessDenied, SourceUnavailable, SubjectForbidden
from headrace.model.text_formatting import printable
from headrace.options.schema_settings import RegistrySettings

# A task that says nothing for 105 s is given up: one question, its token included, takes less in all.
_ATTEMPTS: Final = 4
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 10.0

_FORBIDDEN: Final = 403
_DENIED: Final = frozenset({401, _FORBIDDEN})
_INCOMPATIBLE: Final = 409
_NOT_FOUND: Final = 404
_UNPROCESSABLE: Final = 422
# What registries answer of schemas. Their bodies have these codes: a proxy's 404 has none.
_NO_SUBJECT: Final = 40401
_NO_VERSION: Final = 40402
_NO_SCHEMA: Final = 40403
_NO_SCHEMA_OF_REFERENCE: Final = 40400
_READ_ONLY: Final = 42205
UNKNOWN: Final = frozenset({_NO_SUBJECT, _NO_VERSION, _NO_SCHEMA, _NO_SCHEMA_OF_REFERENCE})

_WORDS: Final = 600

# RFC 6749, 5.2: an issuer that answers one of these will not answer otherwise by itself.
_REFUSALS: Final = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    }
)
_BEARER: Final = "bearer.auth"
_ISSUER: Final = f"{_BEARER}.issuer.endpoint.url"
# A token whose life is not said is taken to last so long; of others the last fifth is not used.
_UNSAID_SECONDS: Final = 60.0
_USED: Final = 0.8


@lru_cache(maxsize=8)
def registry_client(registry: RegistrySettings) -> Any:
    """The registry's client, one for each registry and process.

    AccessDenied where it cannot be made, which is tried again with the next question: a file may be mounted
    later.
    """
    # One that does not connect, and one that does not answer, once each, for all addresses.
    share = min(1.0, _ATTEMPTS / len(registry.urls))
    attempts = max(1, _ATTEMPTS // len(registry.urls))
    return _new_client(
        registry, connect=_CONNECT_SECONDS * share, answer=_ANSWER_SECONDS * share, attempts=attempts
    )


def answers_once(registry: RegistrySettings, *, seconds: float) -> bool:
    """Ask each address once, until one answers: False where it does not know what each registry does.

    So do those before Confluent 5.5, and what answers at another path than the registry's. Blocks, for a few
    times `seconds` with each address that does not answer. AccessDenied, SourceUnavailable.
    """
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    with (
        registry_errors("let it read the schemas"),
        _new_client(registry, connect=seconds, answer=seconds, attempts=1) as client,
    ):
        try:
            found = client.get_schema_types()
        except SchemaRegistryError as error:
            # A user who may read schemas need not be one who may ask this.
            if error.http_status_code not in {_FORBIDDEN, _NOT_FOUND}:
                raise
            return bool(error.http_status_code == _FORBIDDEN)
    if not isinstance(found, list):
        raise not_a_registry(type(found).__name__)
    return True


def _new_client(registry: RegistrySettings, *, connect: float, answer: float, attempts: int) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.common._httpx_compat import httpx

    timeout = httpx.Timeout(answer, connect=connect)
    given: dict[str, Any] = dict(registry.client())
    if _is_without_tls(registry):
        # The library reads all certificates of its bundle for each client otherwise: 25 ms of CPU. It follows
        # no redirection, so none is ever looked at.
        given["ssl.ca.location"] = False
    if given.get(f"{_BEARER}.credentials.source") == "OAUTHBEARER":
        given = _with_tokens(given, timeout)
    try:
        # new_client gives the in-memory registry for mock:// addresses.
        made = SchemaRegistryClient.new_client({**given, "timeout": timeout, "max.retries": attempts - 1})
    except (OSError, ValueError, TypeError, ImportError, httpx.InvalidURL) as error:
        raise AccessDenied(_not_made(registry, error)) from error
    if len(registry.urls) > 1:
        _have_stay(made)
    return made


def _is_without_tls(registry: RegistrySettings) -> bool:
    return all(url.startswith(("http://", "mock://")) for url in registry.urls) and not any(
        name.startswith("ssl.") for name, _ in registry.properties
    )


def _have_stay(client: Any) -> None:
    """Have the address that has answered asked first from then on, as Java's clients do.

    Else each new schema waits for the one before it that hangs, and several of them for longer than a task
    may be silent.
    """
    from confluent_kafka.schema_registry.common._httpx_compat import httpx
    from confluent_kafka.schema_registry.common.schema_registry_client import is_retriable

    rest = client._rest_client  # noqa: SLF001  # there is no option for it

    def answered(response: Any) -> None:
        asked = str(response.request.url)
        # One may begin as another does: sr-1 and sr-10, or a path below another's.
        those = [url for url in rest.base_urls if asked.startswith(f"{httpx.URL(url)}".rstrip("/") + "/")]
        first = max(those, key=len, default=None)
        if first is not None and not is_retriable(response.status_code):
            rest.base_urls = [first, *(url for url in rest.base_urls if url != first)]

    rest.session.event_hooks["response"].append(answered)


def lacks_path(error: Any, client: Any, known: int | None) -> bool:
    """Whether a SchemaRegistryError is that of a registry which does not know what it was asked for by path.

    As an older one answers; a proxy that has no way to the registry answers the same, and then to all.
    `known` is the id of a schema that the registry had. Raises what the client does.
    """
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    if error.http_status_code != _NOT_FOUND or error.error_code in UNKNOWN:
        return False
    try:
        if isinstance(client.get_schema_types(), list):
            return True
    except SchemaRegistryError:
        # Those before Confluent 5.5 have no such path either, and users may be refused.
        pass
    # The client would give it from its cache.
    client.clear_caches()
    try:
        return isinstance(client.get_schema(1 if known is None else known).schema_str, str)
    except SchemaRegistryError as other:
        return other.http_status_code == _NOT_FOUND and other.error_code in UNKNOWN


def _not_made(registry: RegistrySettings, error: Exception) -> str:
    files = {name: str(path) for name, path in registry.properties if name.endswith(".location")}
    # Which file it was is not said by the TLS library. Other words than a system's may hold a proxy's login.
    named = [name for name, path in files.items() if not os.access(path, os.R_OK)] or list(files)
    options = " and ".join(f"schema.registry.{name}" for name in named)
    why = (isinstance(error, OSError) and error.strerror) or type(error).__name__
    return (
        f"The client of the schema registry cannot be made ({why}): correct {options}{' or ' * bool(options)}"
        "the proxies and certificates that the environment names (HTTPS_PROXY, ALL_PROXY, NO_PROXY, "
        "SSL_CERT_FILE). It is tried again."
    )


def _with_tokens(given: dict[str, Any], timeout: Any) -> dict[str, Any]:
    """The properties by which the client asks us for tokens.

    Its own way takes an issuer that is away for a record's fault, and fails at a token without `expires_in`.
    """
    others = {name: text for name, text in given.items() if not name.startswith(_BEARER)}
    tokens = Tokens(given, timeout)
    return {
        **others,
        f"{_BEARER}.credentials.source": "CUSTOM",
        f"{_BEARER}.custom.provider.function": tokens.fields,
        f"{_BEARER}.custom.provider.config": {},
    }


class Tokens:
    """Tokens of an OAuth issuer, by client credentials; may be asked by several threads."""

    def __init__(self, given: dict[str, Any], timeout: Any, now_ms: Callable[[], int] = wall_ms) -> None:
        from authlib.integrations.httpx_client import OAuth2Client

        self._issuer = given[_ISSUER]
        self._client: Any = OAuth2Client(
            client_id=given[f"{_BEARER}.client.id"],
            client_secret=given[f"{_BEARER}.client.secret"],
            scope=given[f"{_BEARER}.scope"],
            timeout=timeout,
        )
        self._now_ms = now_ms
        kept = ("logical.cluster", "identity.pool.id")
        self._fields = {
            f"{_BEARER}.{name}": given[f"{_BEARER}.{name}"] for name in kept if _BEARER + "." + name in given
        }
        self._lock = Lock()
        self._token: str | None = None
        self._renew_ms = 0.0

    def fields(self, _config: dict[str, Any]) -> dict[str, str]:
        """What the registry's client puts into headers. Raises SourceUnavailable and AccessDenied."""
        with self._lock:
            if self._token is None or self._now_ms() >= self._renew_ms:
                self._token = None
                self._token = self._fetched()
            return {**self._fields, f"{_BEARER}.token": self._token}

    def _fetched(self) -> str:
        from authlib.integrations.httpx_client import OAuthError
        from confluent_kafka.schema_registry.common._httpx_compat import httpx

        began = self._now_ms()
        try:
            found = self._client.fetch_token(url=self._issuer, grant_type="client_credentials")
            token = str(found["access_token"])
        except OAuthError as error:
            raise _no_token(error, is_refused=error.error in _REFUSALS) from error
        except httpx.HTTPStatusError as error:
            raise _no_token(error, is_refused=error.response.status_code in _DENIED) from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise _no_token(error, is_refused=False) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            # What the client makes of a body without the expected JSON.
            raise _no_token(error, is_refused=False) from error
        self._renew_ms = began + 1000 * _USED * _lasting(found.get("expires_in"))
        return token


def _lasting(seconds: Any) -> float:
    """How long a token lasts: issuers may leave it out, or write it as a text."""
    try:
        return float(seconds)
    except (TypeError, ValueError):
        return _UNSAID_SECONDS


def _no_token(error: Exception, *, is_refused: bool) -> AccessDenied | SourceUnavailable:
    where = f"the token issuer at schema.registry.{_ISSUER}"
    why = words(error)
    if is_refused:
        return AccessDenied(
            f"The schema registry cannot be asked: {where} refuses this client ({why}). Correct "
            f"schema.registry.{_BEARER}.client.id, .client.secret or .scope."
        )
    return SourceUnavailable(
        f"The schema registry cannot be asked: {where} gives no token ({why}). It is asked again."
    )


def words(error: Any) -> str:
    """An error's own words, printable and of a bounded length: they are in logs and in the ledger."""
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    if not isinstance(error, SchemaRegistryError):
        text = printable(str(error), limit=_WORDS)
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    text, code = printable(str(error.error_message), limit=_WORDS), printable(str(error.error_code), limit=20)
    return f"{text} (HTTP status code {error.http_status_code}, SR code {code})"


def is_refusal(error: Any) -> bool:
    """True for a SchemaRegistryError that is the registry's own word of a schema or a subject.

    Others say nothing of them: the user is refused, the registry is read-only or failing, or what answers is
    in front of it, such as a proxy without a route.
    """
    code = error.error_code
    if not isinstance(code, int) or code <= 0:
        return False
    match error.http_status_code:
        case http if http == _NOT_FOUND:
            return code in UNKNOWN
        case http if http == _UNPROCESSABLE:
            return code != _READ_ONLY
        case http:
            return bool(http == _INCOMPATIBLE)


@contextmanager
def registry_errors(otherwise: str, *, subject: str | None = None) -> Iterator[None]:
    """Raises AccessDenied, whose fix ends with `otherwise`, or SourceUnavailable for such errors.

    SubjectForbidden where the user is known, and may not do this with the `subject`.
    Also for an answer that is no registry's: a login page, or a proxy's HTML with the status 200.
    """
    from confluent_kafka.schema_registry.common._httpx_compat import httpx
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    try:
        yield
    except SchemaRegistryError as error:
        if error.http_status_code in _DENIED:
            sentence = (
                f"The schema registry refuses this user ({words(error)}). Correct "
                f"schema.registry.basic.auth.* or schema.registry.ssl.*, or {otherwise}."
            )
            if subject is not None and error.http_status_code == _FORBIDDEN:
                raise SubjectForbidden(sentence, subject=subject) from error
            raise AccessDenied(sentence) from error
        raise SourceUnavailable(f"The schema registry does not answer ({words(error)}).") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise SourceUnavailable(f"The schema registry cannot be reached ({type(error).__name__}).") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # What the client makes of a body without the expected JSON.
        raise not_a_registry(type(error).__name__) from error


def not_a_registry(what: str) -> SourceUnavailable:
    """The error for an answer that has the status 200 and is not what a registry answers."""
    return SourceUnavailable(
        f"What answers at schema.registry.url does not answer as a schema registry does ({what}): correct "
        "the address, or what is in front of the registry (a proxy, a login page). It is asked again."
    )
