"""Where credentials come from, by the sources a configuration can name."""

import ssl
from pathlib import Path
from typing import Final

import botocore.session
import pytest
from botocore.credentials import create_credential_resolver

from headrace.aws.aws_credentials import (
    METHODS,
    SigningCredentials,
    is_anonymous,
    session_with,
    usable_configuration,
)
from headrace.kafka.tokens import IamSignature
from headrace.model.errors import AccessDenied
from headrace.options.choices import CredentialsProvider
from headrace.options.secret import Secret
from headrace.options.settings import (
    Credentials,
    DefaultCredentials,
    ProviderCredentials,
    RoleCredentials,
    StaticCredentials,
)
from headrace.options.token_logins import IamLogin, token_login
from headrace.s3 import new_s3_calls
from tests.headrace.options.loading import load_with
from tests.headrace.s3.scripted_s3 import settings
from tests.security.certificates import new_authority
from tests.support import aws
from tests.support.credential_service import CredentialService

KEYS = StaticCredentials(
    access_key_id="AKIA", secret_access_key=Secret("secret"), session_token=Secret("token")
)


def source(provider: CredentialsProvider) -> Credentials:
    """A source that is named."""
    return ProviderCredentials(provider=provider)


def signing(credentials: Credentials) -> SigningCredentials:
    """What signs with these."""
    return SigningCredentials(credentials, region="eu-west-1")


def test_every_named_source_is_one_of_botocore() -> None:
    """A provider that botocore renames would otherwise find no credentials, silently."""
    known = {found.METHOD for found in create_credential_resolver(botocore.session.get_session()).providers}
    assert set().union(*METHODS.values()) <= known


def test_every_source_of_the_settings_is_served() -> None:
    """Static keys, the default chain and no credentials at all are cases of their own."""
    others = {CredentialsProvider.DEFAULT, CredentialsProvider.STATIC, CredentialsProvider.ANONYMOUS}
    assert set(METHODS) | others == set(CredentialsProvider)
    assert is_anonymous(source(CredentialsProvider.ANONYMOUS))
    assert not is_anonymous(KEYS)


def test_static_keys_travel() -> None:
    """They are the ones that sign."""
    found = signing(KEYS).get_frozen_credentials()

    assert (found.access_key, found.secret_key, found.token) == ("AKIA", "secret", "token")


def test_only_the_source_that_is_named_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys in the environment serve `environment`, and are not taken for a profile."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere/config")

    for given in (source(CredentialsProvider.ENVIRONMENT), DefaultCredentials()):
        assert signing(given).get_frozen_credentials().access_key == "FROMENV"
    with pytest.raises(AccessDenied, match="'profile', which has no credentials"):
        signing(source(CredentialsProvider.PROFILE)).get_frozen_credentials()


def test_a_role_whose_source_has_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence is about the source, which is what has to be mended."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    role = RoleCredentials(
        arn="arn:aws:iam::000000000000:role/reader",
        session_name="headrace",
        external_id=None,
        duration_seconds=3600,
        endpoint="http://127.0.0.1:9",
        source=ProviderCredentials(provider=CredentialsProvider.ENVIRONMENT),
    )

    with pytest.raises(AccessDenied, match="'environment', which has no credentials"):
        signing(role).get_frozen_credentials()


def test_a_profile_that_is_missing_allows_no_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Botocore raises as soon as a client is made."""
    monkeypatch.setenv("AWS_PROFILE", "missing")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    with pytest.raises(AccessDenied, match=r"AWS_PROFILE"), usable_configuration():
        session_with(signing(KEYS), region="eu-west-1").create_client("s3")
    with pytest.raises(AccessDenied, match=r"AWS_PROFILE"):
        new_s3_calls(settings("http://127.0.0.1:9", credentials=KEYS))


@pytest.mark.parts
def test_a_role_is_assumed_where_it_is_used(s3_endpoint: str) -> None:
    """With the source's keys, at the endpoint of STS, when first needed."""
    role = RoleCredentials(
        arn="arn:aws:iam::000000000000:role/reader",
        session_name="headrace",
        external_id="outside",
        duration_seconds=900,
        endpoint=s3_endpoint,
        source=KEYS,
    )

    found = signing(role).get_frozen_credentials()

    assert found.token not in {None, "token"}


@pytest.mark.parametrize("is_brokers", [True, False], ids=["log-in at the brokers", "S3"])
def test_the_sts_of_a_role_is_reached_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, *, is_brokers: bool
) -> None:
    """No name of it is known here; `aws.s3.proxy.url` is S3's alone, and need not be there."""
    with CredentialService() as proxy:
        proxy.grant()
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        loaded = load_with(
            {
                "sasl.mechanism": "AWS_MSK_IAM",
                "security.protocol": "SASL_SSL",
                "bootstrap.servers": "b-1.c.x.kafka.eu-west-1.amazonaws.com:9098",
                "aws.s3.proxy.url": "http://127.0.0.1:9",
                "aws.sts.role.arn": "arn:aws:iam::123456789012:role/both",
                "aws.sts.role.session.name": "pair",
                "aws.sts.config.endpoint": "http://sts.not-known.invalid",
                "aws.access.key.id": "AKIA",
                "aws.secret.access.key": "secret",
            }
        )
        if is_brokers:
            login = token_login(loaded.kafka.client("admin"))
            assert isinstance(login, IamLogin)
            assert IamSignature(login).token()[2] == "ASIATEMPORARY"
        else:
            found = signing(loaded.s3.credentials).get_frozen_credentials()
            assert found.access_key == "ASIATEMPORARY"
        assert proxy.asked["AssumeRole"] == 1


@pytest.mark.parametrize("has_profile", [False, True], ids=["option", "profile"])
def test_a_role_whose_source_was_rotated_is_assumed_with_the_new_keys(
    has_profile: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """STS refuses the old ones, and the file has others: of aws.sts.role.arn, and of a profile."""
    arn, shared = f"arn:aws:iam::{aws.ACCOUNT}:role/reader", tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "config").write_text(f"[profile reader]\nrole_arn = {arn}\nsource_profile = default\n")
    shared.write_text("[default]\naws_access_key_id = AKIAOLD\naws_secret_access_key = one\n")
    now = 0.0
    with CredentialService() as sts:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        # Less than what is left when they have to be renewed: each request does so.
        sts.grant(seconds=60)
        sts.accept("AKIAOLD")
        credentials = SigningCredentials(
            ProviderCredentials(provider=CredentialsProvider.PROFILE, profile="reader")
            if has_profile
            else RoleCredentials(
                arn=arn,
                source=DefaultCredentials(),
                session_name="headrace",
                external_id=None,
                duration_seconds=3600,
                endpoint=sts.url,
            ),
            region="eu-west-1",
            clock=lambda: now,
        )
        assert credentials.get_frozen_credentials().access_key == "ASIATEMPORARY"

        sts.accept("AKIANEW")
        with pytest.raises(AccessDenied, match="InvalidClientTokenId"):
            credentials.get_frozen_credentials()
        shared.write_text("[default]\naws_access_key_id = AKIANEW\naws_secret_access_key = two\n")
        now += 60

        assert credentials.get_frozen_credentials().access_key == "ASIATEMPORARY"


def test_brokers_get_signatures_of_the_keys_that_a_file_has_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A rotation needs no restart: what MSK refuses, no answer of AWS says."""
    shared = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    signatures = IamSignature(
        IamLogin(region="eu-west-1", sts_region="eu-west-1", provider=CredentialsProvider.PROFILE)
    )
    shared.write_text("[default]\naws_access_key_id = AKIAOLD\naws_secret_access_key = one\n")
    assert signatures.token()[2] == "AKIAOLD"

    shared.write_text("[default]\naws_access_key_id = AKIANEW\naws_secret_access_key = two\n")

    assert signatures.token()[2] == "AKIANEW"


PROFILE: Final = "[profile reader]\nrole_arn = {arn}\nsource_profile = default\n"
KEYS_OF_FILE: Final = "[default]\naws_access_key_id = AKIA\naws_secret_access_key = one\n"


@pytest.mark.parametrize(
    "credentials",
    [
        ProviderCredentials(provider=CredentialsProvider.WEB_IDENTITY),
        ProviderCredentials(provider=CredentialsProvider.PROFILE, profile="reader"),
        DefaultCredentials(),
    ],
    ids=["web identity", "role of a profile", "default chain"],
)
def test_an_sts_is_trusted_by_the_authorities_that_are_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, credentials: Credentials
) -> None:
    """`aws.ca.bundle` holds where botocore itself asks STS, too."""
    authority, token = new_authority(tmp_path), tmp_path / "token"
    token.write_text("a-web-token")
    (tmp_path / "config").write_text(PROFILE.format(arn=f"arn:aws:iam::{aws.ACCOUNT}:role/reader"))
    (tmp_path / "credentials").write_text(KEYS_OF_FILE)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.sign("sts"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", f"arn:aws:iam::{aws.ACCOUNT}:role/reader")
    with CredentialService(tls) as sts:
        sts.grant()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
        signs = SigningCredentials(credentials, region="eu-west-1", ca_bundle=str(authority.file))

        assert signs.get_frozen_credentials().access_key == "ASIATEMPORARY"
