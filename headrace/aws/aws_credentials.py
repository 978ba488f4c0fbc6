"""What signs requests to AWS, gotten in a step of its own by all: tasks, listeners or commands.

Whatever fails while credentials are resolved or renewed is AccessDenied, with a sentence that names the
option they come from: it is true of all objects and no object's fault. The next request tries again.
botocore's descriptions of S3, SQS and STS are read once for all clients of a process: 12 MiB and a sixth of a
second for each client, in a process that makes one for each connector and each of its parts.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

import botocore.session
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, ReadOnlyCredentials, RefreshableCredentials
from botocore.credentials import Credentials as BotocoreCredentials
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.loaders import Loader, create_loader

from headrace.aws.aws_errors import answer_of, is_unexplained, may_be_about_credentials
from headrace.model.errors import AccessDenied, HeadraceError
from headrace.model.text_formatting import printable
from headrace.options.choices import CredentialsProvider
from headrace.options.settings import Credentials, ProviderCredentials, RoleCredentials, StaticCredentials

T = TypeVar("T")

SERVICES: Final = ("s3", "sqs", "sts")


def share_service_models(session: Any) -> None:
    """Have a session, of botocore or aiobotocore, use the descriptions that others have read.

    Those of another AWS_DATA_PATH, or of another profile's, stay apart.
    """
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))


def load_service_models(session: Any) -> None:
    """Read what clients need, so that processes that are forked from this one have it."""
    share_service_models(session)
    loader = session.get_component("data_loader")
    for name in ("endpoints", "sdk-default-configuration", "partitions", "_retry"):
        loader.load_data(name)
    for service in SERVICES:
        for kind in ("service-2", "endpoint-rule-set-1"):
            loader.load_service_model(service, kind)


@cache
def _loader(data_path: str | None) -> Loader:
    # Whoever asks for the same file at the same time reads it twice, and nothing else happens.
    return create_loader(data_path)


# botocore's names for the sources of its own chain; only these are asked when one is named.
METHODS: Final[Mapping[CredentialsProvider, frozenset[str]]] = {
    CredentialsProvider.ENVIRONMENT: frozenset({"env"}),
    CredentialsProvider.PROFILE: frozenset(
        {"assume-role", "sso", "login", "shared-credentials-file", "custom-process", "config-file"}
    ),
    CredentialsProvider.CONTAINER: frozenset({"container-role"}),
    CredentialsProvider.INSTANCE_PROFILE: frozenset({"iam-role"}),
    CredentialsProvider.WEB_IDENTITY: frozenset({"assume-role-with-web-identity"}),
}

# A failure is the answer for this long: a batch of a thousand objects is not a thousand questions.
_FAILURE_SECONDS: Final = 1.0
# Refused credentials are resolved again this often at most.
_FORGET_SECONDS: Final = 10.0
# Whoever gives credentials is near; botocore's own patience is five minutes and more.
PATIENCE: Final = Config(
    connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 2, "mode": "standard"}
)
# Renewed so long before the end at most; of a short session only in its last quarter, and sixth.
_RENEW_SECONDS: Final = 900
_MUST_RENEW_SECONDS: Final = 600
_WORDS: Final = 300


def is_anonymous(credentials: Credentials) -> bool:
    """True when requests go out unsigned."""
    return (
        isinstance(credentials, ProviderCredentials) and credentials.provider is CredentialsProvider.ANONYMOUS
    )


class SigningCredentials:
    """In the place of botocore's credentials in a client; thread-safe. Sends no request before it is asked.

    Files, environment and metadata service are read again when there was nothing, after AWS has refused what
    they gave, and where it could not be renewed.
    """

    method = "headrace"

    def __init__(
        self,
        credentials: Credentials,
        *,
        region: str,
        ca_bundle: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = credentials
        self._region = region
        self._ca_bundle = ca_bundle
        self._clock = clock
        self._lock = threading.Lock()
        self._found: Any = None
        self._failure: tuple[float, str] | None = None
        self._forgotten_at: float | None = None

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """The keys of this moment, renewed when they are due; may block. AccessDenied when there are none."""
        failure = self._failure
        if failure is not None and self._clock() < failure[0]:
            raise AccessDenied(failure[1])
        try:
            keys: ReadOnlyCredentials = self._resolved().get_frozen_credentials()
        except HeadraceError as error:
            # The source of a role has said why.
            sentence = str(error)
        except Exception as error:  # noqa: BLE001  # files, plug-ins and services fail in any way they like
            sentence = _sentence(self._source, error)
        else:
            self._failure = None
            return keys
        # It may have been refused for keys that a file has no longer, such as those of a role.
        self.forget()
        self._failure = (self._clock() + _FAILURE_SECONDS, sentence)
        # Without what led to it: the errors of HTTP clients quote headers, which are secrets here.
        raise AccessDenied(sentence) from None

    def at_hand(self) -> ReadOnlyCredentials | None:
        """The keys when no request is needed for them, at once; else None."""
        found = self._found
        if found is None or (isinstance(found, RefreshableCredentials) and found.refresh_needed()):
            return None
        keys: ReadOnlyCredentials = found.get_frozen_credentials()
        return keys

    def forget(self) -> None:
        """They are refused, or cannot be renewed: the next request has them resolved again."""
        with self._lock:
            now = self._clock()
            if self._forgotten_at is None or now - self._forgotten_at >= _FORGET_SECONDS:
                self._found, self._forgotten_at = None, now

    def forget_lasting(self) -> None:
        """Resolve what has no end again, where no answer of AWS ever says that it is refused."""
        if self._found is not None and not isinstance(self._found, RefreshableCredentials):
            self.forget()

    def on_answer(self, http_response: Any, parsed: Any, model: Any, **_: Any) -> None:
        """What a client's event `after-call` calls: see `forget`."""
        code, status = str(parsed.get("Error", {}).get("Code", "")), http_response.status_code
        if code and may_be_about_credentials(code, status, model.name):
            self.forget()
        elif is_unexplained(status, model.name):
            self.forget_lasting()

    def get_deferred_property(self, name: str) -> Callable[[], None]:
        """Botocore asks for the account's number, which neither S3 nor SQS needs in its address."""
        del name
        return lambda: None

    def _resolved(self) -> Any:
        found = self._found
        if found is None:
            with self._lock:
                if self._found is None:
                    self._found = self._resolve()
                found = self._found
        return found

    def _resolve(self) -> Any:
        match self._source:
            case StaticCredentials() as keys:
                token = keys.session_token
                return BotocoreCredentials(
                    keys.access_key_id,
                    keys.secret_access_key.reveal(),
                    None if token is None else token.reveal(),
                )
            case RoleCredentials() as role:
                return self._assumed(role)
            case ProviderCredentials(provider=provider, profile=profile) if provider in METHODS:
                found = self._session(METHODS[provider], profile).get_credentials()
            case _:
                found = self._session(None).get_credentials()
        if found is None:
            raise AccessDenied(_nothing(self._source))
        return found

    def _session(
        self, methods: frozenset[str] | None, profile: str | None = None
    ) -> botocore.session.Session:
        session = botocore.session.Session(profile=profile)
        share_service_models(session)
        session.set_config_variable("region", self._region)
        session.set_default_client_config(PATIENCE)
        if self._ca_bundle is not None:
            # Of STS and single sign-on, which botocore's own sources ask by clients that they make.
            session.set_config_variable("ca_bundle", self._ca_bundle)
        if methods is not None:
            chain: Any = session.get_component("credential_provider")
            chain.providers = [one for one in chain.providers if one.METHOD in methods]
        return session

    def _assumed(self, role: RoleCredentials) -> RefreshableCredentials:
        asked: dict[str, Any] = {
            "RoleSessionName": role.session_name,
            "DurationSeconds": role.duration_seconds,
        }
        if role.external_id is not None:
            asked["ExternalId"] = role.external_id
        session = self._session(None)

        def create_client(service: str, **given: Any) -> Any:
            return session.create_client(
                service, region_name=self._region, endpoint_url=role.endpoint, verify=self._ca_bundle, **given
            )

        source = SigningCredentials(role.source, region=self._region, ca_bundle=self._ca_bundle)
        fetch: Any = AssumeRoleCredentialFetcher(
            create_client, source, role.arn, extra_args=asked
        ).fetch_credentials
        return RefreshableCredentials.create_from_metadata(
            fetch(),
            fetch,
            "assume-role",
            advisory_timeout=min(_RENEW_SECONDS, role.duration_seconds // 4),
            mandatory_timeout=min(_MUST_RENEW_SECONDS, role.duration_seconds // 6),
        )


def signed_again(call: Callable[[], T]) -> T:
    """What `call` of a client gives, made twice where the first is refused for who signed it.

    Such as when the keys of a shared file were rotated: nothing was done then, and `on_answer` has seen to it
    that the client's credentials are resolved again.
    """
    try:
        return call()
    except ClientError as error:
        if not may_be_about_credentials(*answer_of(error), error.operation_name):
            raise
    return call()


@contextmanager
def usable_configuration() -> Iterator[None]:
    """AccessDenied for what botocore raises while a client is made: a missing profile, a broken file."""
    try:
        yield
    except (BotoCoreError, OSError) as error:
        raise AccessDenied(
            f"No AWS client can be made on this machine ({_words(error)}). Check AWS_PROFILE, "
            "AWS_CONFIG_FILE and aws.ca.bundle."
        ) from None


class SigningProvider:
    """In the place of botocore's chain of providers in a session: `session.register_component` takes it."""

    def __init__(self, credentials: SigningCredentials) -> None:
        self._credentials = credentials

    def load_credentials(self) -> SigningCredentials:
        """The credentials, before any request for them."""
        return self._credentials


def session_with(credentials: SigningCredentials, *, region: str) -> botocore.session.Session:
    """A botocore session whose clients sign with these."""
    session = botocore.session.get_session()
    share_service_models(session)
    session.set_config_variable("region", region)
    session.register_component("credential_provider", SigningProvider(credentials))
    return session


def _origin(source: Credentials) -> str:
    """Where the credentials come from, in the words of the options."""
    match source:
        case RoleCredentials():
            return f"aws.sts.role.arn = {source.arn!r}: the role cannot be assumed"
        case ProviderCredentials() if source.provider in METHODS:
            return f"aws.credentials.provider names the source {source.provider.value!r}, which fails"
        case _:
            return "aws.credentials.provider: AWS's default chain, which is asked for credentials, fails"


def _sentence(source: Credentials, error: Exception) -> str:
    return f"{_origin(source)} ({_words(error)}). It is tried again with each request."


def _nothing(source: Credentials) -> str:
    if isinstance(source, ProviderCredentials) and source.provider in METHODS:
        return (
            f"aws.credentials.provider names the source {source.provider.value!r}, "
            "which has no credentials on this machine."
        )
    return (
        "There are no AWS credentials on this machine: set aws.access.key.id and aws.secret.access.key, name "
        "another aws.credentials.provider, or give the machine a role."
    )


def _words(error: Exception) -> str:
    """The text for an error: AWS's own code and words; of others only what cannot be a secret."""
    if isinstance(error, ClientError):
        answer = error.response.get("Error", {})
        words = f"{answer.get('Code', '')}: {answer.get('Message', '')}"
    elif type(error) is not HTTPClientError and isinstance(error, BotoCoreError | OSError | RuntimeError):
        words = f"{type(error).__name__}: {error}"
    else:
        words = type(error).__name__
    return printable(words.strip(" :").rstrip("."), limit=_WORDS)
