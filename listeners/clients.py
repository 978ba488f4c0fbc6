"""Clients of S3 and SQS for the listeners' loop, and where their credentials come from.

They repeat no call: each listener repeats its own, and knows for how long.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from aiobotocore.config import AioConfig
from aiobotocore.credentials import AioDeferredRefreshableCredentials, create_credential_resolver
from aiobotocore.session import AioSession
from botocore import UNSIGNED
from botocore.exceptions import NoCredentialsError
from botocore.utils import parse_timestamp

from ingest.settings.choices import CredentialsProvider
from ingest.settings.model import (
    Credentials,
    DefaultCredentials,
    ProviderCredentials,
    RoleCredentials,
    S3Settings,
    SqsSettings,
    StaticCredentials,
)
from listeners.contents import read_quickly

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 30
# A long poll is answered within its wait; what is this much later is not coming.
_GRACE_SECONDS: Final = 10

# botocore's names of its providers, for each source that a configuration can ask for.
PROVIDER_METHODS: Final[Mapping[CredentialsProvider, frozenset[str]]] = {
    CredentialsProvider.ENVIRONMENT: frozenset({"env"}),
    CredentialsProvider.PROFILE: frozenset(
        {"assume-role", "sso", "login", "shared-credentials-file", "custom-process", "config-file"}
    ),
    CredentialsProvider.CONTAINER: frozenset({"container-role"}),
    CredentialsProvider.INSTANCE_PROFILE: frozenset({"iam-role"}),
    CredentialsProvider.WEB_IDENTITY: frozenset({"assume-role-with-web-identity"}),
}


@asynccontextmanager
async def s3_client(settings: S3Settings) -> AsyncIterator[Any]:
    """A client of the bucket's S3; NoCredentialsError and its like when there is nothing to sign with."""
    config = AioConfig(
        s3={"addressing_style": "path" if settings.endpoint else "auto"},
        read_timeout=READ_SECONDS,
        **_config(settings.credentials),
    )
    async with _client("s3", settings, settings.region, settings.endpoint, config) as client:
        read_quickly(client)
        yield client


@asynccontextmanager
async def sqs_client(sqs: SqsSettings, s3: S3Settings) -> AsyncIterator[Any]:
    """A client of the queue's SQS, with the credentials of the bucket."""
    config = AioConfig(read_timeout=sqs.wait_time_seconds + _GRACE_SECONDS, **_config(s3.credentials))
    async with _client("sqs", s3, sqs.region, sqs.endpoint, config) as client:
        yield client


def _config(credentials: Credentials) -> dict[str, Any]:
    config: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS,
        "max_pool_connections": 100,
        "retries": {"total_max_attempts": 1, "mode": "standard"},
    }
    if credentials == ProviderCredentials(provider=CredentialsProvider.ANONYMOUS):
        config["signature_version"] = UNSIGNED
    return config


@asynccontextmanager
async def _client(
    service: str, s3: S3Settings, region: str, endpoint: str | None, config: AioConfig
) -> AsyncIterator[Any]:
    session = _session(s3.credentials, region, s3.ca_bundle)
    # A client without credentials would stay so for good: better none, and another try.
    if config.signature_version is not UNSIGNED and await session.get_credentials() is None:
        raise NoCredentialsError
    async with session.create_client(
        service, region_name=region, endpoint_url=endpoint, verify=s3.ca_bundle, config=config
    ) as client:
        yield client


def _session(credentials: Credentials, region: str, ca_bundle: str | None) -> AioSession:
    session = AioSession()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_timestamp)
    match credentials:
        case StaticCredentials():
            token = credentials.session_token
            session.set_credentials(
                credentials.access_key_id.reveal(),
                credentials.secret_access_key.reveal(),
                None if token is None else token.reveal(),
            )
        case RoleCredentials():
            session.register_component("credential_provider", _Role(credentials, region, ca_bundle))
        case ProviderCredentials() if credentials.provider in PROVIDER_METHODS:
            resolver = create_credential_resolver(session, region_name=region)
            methods = PROVIDER_METHODS[credentials.provider]
            resolver.providers = [found for found in resolver.providers if found.METHOD in methods]
            session.register_component("credential_provider", resolver)
        case ProviderCredentials() | DefaultCredentials():
            pass
    return session


def _timestamp(value: Any) -> datetime:
    """The datetime that a response's text or number stands for, as botocore itself would read it.

    botocore's own parser tries every form there is, and that is most of the CPU of a page that
    `listeners.contents` leaves to it: 53 ms for 1,000 keys, and 14 ms with this shortcut for S3's form.
    """
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return parse_timestamp(value)
    return found if found.tzinfo is not None else parse_timestamp(value)


class _Role:
    """In the place of botocore's credential resolver: a role, assumed at first use and before each expiry."""

    def __init__(self, role: RoleCredentials, region: str, ca_bundle: str | None) -> None:
        self._role = role
        self._region = region
        self._ca_bundle = ca_bundle

    async def load_credentials(self) -> AioDeferredRefreshableCredentials:
        """Credentials that assume the role when they are first asked for; this itself calls nobody."""
        return AioDeferredRefreshableCredentials(self._assume, method="assume-role")

    async def _assume(self) -> Mapping[str, str]:
        role = self._role
        external = {} if role.external_id is None else {"ExternalId": role.external_id}
        session = _session(role.source, self._region, self._ca_bundle)
        async with session.create_client(
            "sts", region_name=self._region, endpoint_url=role.endpoint, verify=self._ca_bundle
        ) as sts:
            answer = await sts.assume_role(
                RoleArn=role.arn,
                RoleSessionName=role.session_name,
                DurationSeconds=role.duration_seconds,
                **external,
            )
        found = answer["Credentials"]
        return {
            "access_key": found["AccessKeyId"],
            "secret_key": found["SecretAccessKey"],
            "token": found["SessionToken"],
            "expiry_time": found["Expiration"].isoformat(),
        }
