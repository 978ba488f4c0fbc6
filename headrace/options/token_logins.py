"""Log-ins by tokens that this process has to get itself: AWS IAM, and a file that something else renews.

librdkafka's `sasl.oauthbearer.config` is the place for what such a log-in needs. The text below never reaches
librdkafka, which would show it in its debug lines: `headrace.kafka.tokens` takes it out.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from headrace.options.choices import CredentialsProvider
from headrace.options.secret import Secret
from headrace.options.settings import (
    Credentials,
    DefaultCredentials,
    ProviderCredentials,
    RoleCredentials,
    S3Settings,
    StaticCredentials,
)

CONFIG: Final = "sasl.oauthbearer.config"
IAM_MECHANISM: Final = "AWS_MSK_IAM"
# Of properties between their translation and the settings: the option that asks for IAM, and what JAAS says.
IAM: Final = "aws.msk.iam"
JAAS_OPTIONS: Final = (
    "awsProfileName",
    "awsRoleArn",
    "awsRoleSessionName",
    "awsRoleExternalId",
    "awsStsRegion",
    "awsRoleAccessKeyId",
    "awsRoleSecretAccessKey",
    "awsRoleSessionToken",
)
# A renewal that fails is repeated until it works, and who is logged in is in no debug line.
WITHOUT_EFFECT: Final = frozenset({"awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"})

_PREFIX: Final = "headrace:"
_SESSION: Final = "headrace"
_SECONDS: Final = 3600
# The names of MSK's brokers, provisioned and serverless.
_BROKER: Final = re.compile(
    r"\.kafka(?:-serverless)?\.([a-z]{2}[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::|,|$)"
)


class IamLogin(msgspec.Struct, frozen=True, kw_only=True, tag="iam"):
    """Signs with AWS credentials; `region` is that of the brokers, `sts_region` the one of a role's STS."""

    region: str
    sts_region: str
    ca_bundle: str | None = None
    keys: tuple[str, str, str | None] | None = None
    provider: CredentialsProvider | None = None
    profile: str | None = None
    role: str | None = None
    role_session: str = _SESSION
    role_external_id: str | None = None
    role_seconds: int = _SECONDS
    role_endpoint: str | None = None

    @property
    def credentials(self) -> Credentials:
        """What signs."""
        source = self._source
        if self.role is None:
            return source
        return RoleCredentials(
            arn=self.role,
            session_name=self.role_session,
            external_id=self.role_external_id,
            duration_seconds=self.role_seconds,
            endpoint=self.role_endpoint,
            source=source,
        )

    @property
    def _source(self) -> StaticCredentials | ProviderCredentials | DefaultCredentials:
        if self.keys is not None:
            key, secret, token = self.keys
            return StaticCredentials(
                access_key_id=key,
                secret_access_key=Secret(secret),
                session_token=None if token is None else Secret(token),
            )
        if self.provider is None:
            return DefaultCredentials()
        return ProviderCredentials(provider=self.provider, profile=self.profile)


class TokenFile(msgspec.Struct, frozen=True, kw_only=True, tag="file"):
    """Reads a JWT from a file each time that one is needed."""

    path: str


TokenLogin = IamLogin | TokenFile


def token_login(properties: Mapping[str, object]) -> TokenLogin | None:
    """The log-in that properties of a client hold, if it is one of these."""
    text = properties.get(CONFIG)
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        return None
    login: TokenLogin = msgspec.json.decode(text.removeprefix(_PREFIX), type=TokenLogin)
    return login


def aws_login(s3: S3Settings, region: str) -> str:
    """The text for the connector's own AWS credentials, to sign for a region."""
    return _text(_of_connector(s3, region))


def signing_login(text: str) -> IamLogin:
    """The log-in of such a text."""
    found = token_login({CONFIG: text})
    assert isinstance(found, IamLogin)
    return found


def file_config(path: str) -> str:
    """The text for a token in a file."""
    return _text(TokenFile(path=path))


def with_iam(
    properties: Mapping[str, str], s3: S3Settings, *, servers: str, sts_endpoint: str | None
) -> dict[str, str]:
    """The properties, IAM's log-in filled in from the connector's AWS options where they ask for it."""
    own = {name: text for name, text in properties.items() if not name.startswith(IAM)}
    if IAM not in properties:
        return own
    given = {name: properties.get(f"{IAM}.{name}") for name in JAAS_OPTIONS}
    found = _BROKER.search(servers)
    region = s3.region if found is None else found[1]
    login = _of_connector(s3, region)
    key, secret = given["awsRoleAccessKeyId"], given["awsRoleSecretAccessKey"]
    if key is not None and secret is not None:
        login = _replaced(login, keys=(key, secret, given["awsRoleSessionToken"]), provider=None, role=None)
    elif (profile := given["awsProfileName"]) is not None:
        login = _replaced(login, keys=None, provider=CredentialsProvider.PROFILE, profile=profile, role=None)
    if (role := given["awsRoleArn"]) is not None:
        login = _replaced(
            login,
            role=role,
            role_session=given["awsRoleSessionName"] or login.role_session,
            role_external_id=given["awsRoleExternalId"],
            role_endpoint=sts_endpoint,
        )
    return own | {CONFIG: _text(_replaced(login, sts_region=given["awsStsRegion"] or login.sts_region))}


def _of_connector(s3: S3Settings, region: str) -> IamLogin:
    """What the connector's own AWS options say."""
    login = IamLogin(region=region, sts_region=s3.region, ca_bundle=s3.ca_bundle)
    source: Credentials = s3.credentials
    if isinstance(source, RoleCredentials):
        login = _replaced(
            login,
            role=source.arn,
            role_session=source.session_name,
            role_external_id=source.external_id,
            role_seconds=source.duration_seconds,
            role_endpoint=source.endpoint,
        )
        source = source.source
    match source:
        case StaticCredentials():
            token = source.session_token
            keys = (
                source.access_key_id,
                source.secret_access_key.reveal(),
                None if token is None else token.reveal(),
            )
            return _replaced(login, keys=keys)
        case ProviderCredentials():
            return _replaced(login, provider=source.provider)
        case _:
            return login


def _replaced(login: IamLogin, **changes: object) -> IamLogin:
    return msgspec.structs.replace(login, **changes)


def _text(login: TokenLogin) -> str:
    return _PREFIX + msgspec.json.encode(login).decode()
