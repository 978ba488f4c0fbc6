"""Where a client's credentials come from: keys of the configuration, a role, a named source, the chain."""

from typing import Any, Final

import botocore.session
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

from ingest.errors import AccessDenied
from ingest.settings.choices import CredentialsProvider
from ingest.settings.model import (
    Credentials,
    DefaultCredentials,
    ProviderCredentials,
    RoleCredentials,
    StaticCredentials,
)

# botocore's names for the sources of its own chain; only these are asked when one is named.
_METHODS: Final[dict[CredentialsProvider, tuple[str, ...]]] = {
    CredentialsProvider.ENVIRONMENT: ("env",),
    CredentialsProvider.PROFILE: (
        "assume-role",
        "sso",
        "shared-credentials-file",
        "login",
        "custom-process",
        "config-file",
    ),
    CredentialsProvider.CONTAINER: ("container-role",),
    CredentialsProvider.INSTANCE_PROFILE: ("iam-role",),
    CredentialsProvider.WEB_IDENTITY: ("assume-role-with-web-identity",),
}


def is_anonymous(credentials: Credentials) -> bool:
    """True when requests go out unsigned."""
    return (
        isinstance(credentials, ProviderCredentials) and credentials.provider is CredentialsProvider.ANONYMOUS
    )


def session_with(credentials: Credentials, *, region: str) -> botocore.session.Session:
    """A botocore session whose clients use these credentials, resolved on this machine when first needed.

    AccessDenied when a named source has none.
    """
    match credentials:
        case RoleCredentials():
            return _with_role(credentials, region)
        case StaticCredentials():
            session = _plain(region)
            token = credentials.session_token
            session.set_credentials(
                credentials.access_key_id.reveal(),
                credentials.secret_access_key.reveal(),
                None if token is None else token.reveal(),
            )
            return session
        case ProviderCredentials(provider=provider) if provider in _METHODS:
            return _with_methods(provider, region)
        case ProviderCredentials() | DefaultCredentials():
            return _plain(region)


def _plain(region: str) -> botocore.session.Session:
    session = botocore.session.get_session()
    session.set_config_variable("region", region)
    return session


def _with_methods(provider: CredentialsProvider, region: str) -> botocore.session.Session:
    session = _plain(region)
    chain: Any = session.get_component("credential_provider")
    chain.providers = [one for one in chain.providers if one.METHOD in _METHODS[provider]]
    if session.get_credentials() is None:
        raise AccessDenied(
            f"aws.credentials.provider names the source {provider.value!r}, "
            "which has no credentials on this machine."
        )
    assumed: botocore.session.Session = session
    return assumed


def _with_role(role: RoleCredentials, region: str) -> botocore.session.Session:
    source = session_with(role.source, region=region)
    asked: dict[str, Any] = {"RoleSessionName": role.session_name, "DurationSeconds": role.duration_seconds}
    if role.external_id is not None:
        asked["ExternalId"] = role.external_id

    def create_client(service: str, **given: Any) -> Any:
        return source.create_client(service, region_name=region, endpoint_url=role.endpoint, **given)

    source_credentials = source.get_credentials()
    if source_credentials is None:
        raise AccessDenied(
            f"The role {role.arn} cannot be assumed: there are no AWS credentials to do it with."
        )
    fetcher = AssumeRoleCredentialFetcher(create_client, source_credentials, role.arn, extra_args=asked)
    session: Any = _plain(region)
    # What botocore's own assume-role provider makes: refreshed 15 minutes before it expires.
    session._credentials = DeferredRefreshableCredentials(  # noqa: SLF001  # botocore takes static keys only
        refresh_using=fetcher.fetch_credentials, method="assume-role"
    )
    assumed: botocore.session.Session = session
    return assumed
