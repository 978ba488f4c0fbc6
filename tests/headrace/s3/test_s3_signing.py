"""Signatures and requests against botocore's: the oracle, since LocalStack checks no signature."""

import string
from typing import Any
from urllib.parse import quote

import pytest
from botocore import UNSIGNED
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.aws.aws_credentials import SigningCredentials, session_with
from headrace.model.errors import AccessDenied
from headrace.options.choices import CredentialsProvider
from headrace.options.secret import Secret
from headrace.options.settings import ProviderCredentials, StaticCredentials
from headrace.s3.client import GetRequest
from headrace.s3.fast_get import FastGet, Keys, Signer, is_supported

# Whatever a query, a path, a header or a URL could trip over, beside what people write.
HOSTILE = st.text(
    st.one_of(
        st.sampled_from("/.~+% ?#&=;:@!$'()*,\"\\<>[]{}|^`-_%2F\t\n\x00\x7fäß日本\U0001f600"),
        st.characters(exclude_categories=["Cs"]),
    ),
    min_size=1,
    max_size=200,
).filter(lambda key: len(key.encode()) <= 1024)
ETAGS = st.text(string.ascii_letters + string.digits + "-_/+=.:", min_size=1, max_size=40)
SECRETS = st.text(string.ascii_letters + string.digits + "/+=", min_size=1, max_size=60)
RANGES = st.none() | st.builds(
    "bytes={}-{}".format, st.integers(0, 10**15), st.integers(0, 10**15) | st.just("")
)


class Lab:
    """One signer for all examples, so that its cached key meets other secrets and days."""

    signer = Signer("eu-central-1")


@given(
    key=HOSTILE,
    version=st.none() | HOSTILE,
    extra=st.dictionaries(st.sampled_from(["range", "if-match", "x-amz-request-payer"]), ETAGS),
    access=SECRETS,
    secret=st.sampled_from(["one", "two"]) | SECRETS,
    token=st.none() | SECRETS,
)
def test_a_signature_is_botocores(
    key: str, version: str | None, extra: dict[str, str], access: str, secret: str, token: str | None
) -> None:
    """For any path and query as they are sent, any headers, any credentials."""
    path = "/" + quote(key, safe="/~")
    query = "" if version is None else f"versionId={quote(version, safe='~')}"
    keys = Keys(access, secret, token)
    url = f"https://host.example{path}" + (f"?{query}" if query else "")
    request = AWSRequest("GET", url, headers={**extra, "host": "host.example"})
    S3SigV4Auth(Credentials(access, secret, token), "s3", "eu-central-1").add_auth(request)
    theirs = {name.lower(): value for name, value in request.headers.items()}

    ours = Lab.signer.signed(
        {**extra, "host": "host.example"}, path=path, query=query, keys=keys, at=theirs["x-amz-date"]
    )

    assert ours == theirs


def test_a_key_is_made_anew_for_another_day_or_secret() -> None:
    """What is kept is of one day and one secret."""
    signer, ask = Signer("eu-central-1"), {"path": "/key", "query": ""}
    signatures = []
    for secret, at in [("one", "20260102T030405Z"), ("two", "20260102T030405Z"), ("two", "20260103T030405Z")]:
        keys = Keys("AKIA", secret)
        kept = signer.signed({"host": "h"}, keys=keys, at=at, **ask)
        assert kept == Signer("eu-central-1").signed({"host": "h"}, keys=keys, at=at, **ask)
        signatures.append(kept["authorization"])
    assert len(set(signatures)) == 3


def client_of(**given: Any) -> tuple[Any, Any]:
    """A client and its credentials."""
    token = given.pop("token", None)
    keys = StaticCredentials(
        access_key_id="AKIA",
        secret_access_key=Secret("secret"),
        session_token=None if token is None else Secret(token),
    )
    credentials = SigningCredentials(keys, region=given["region_name"])
    config = {
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        **given.pop("config", {}),
    }
    session = session_with(credentials, region=given["region_name"])
    return session.create_client("s3", config=Config(**config), **given), credentials


CLIENTS = {
    "virtual host": FastGet(*client_of(region_name="eu-west-1", token="to/ken+=")),
    "path": FastGet(
        *client_of(
            region_name="us-east-1",
            endpoint_url="http://[::1]:99/pre/fix/",
            config={"s3": {"addressing_style": "path"}},
        )
    ),
    "virtual host of another S3": FastGet(
        *client_of(
            region_name="eu-west-1",
            endpoint_url="https://s3.example:9000",
            config={"s3": {"addressing_style": "virtual"}},
        )
    ),
    "unsigned": FastGet(*client_of(region_name="us-east-1", config={"signature_version": UNSIGNED})),
}


@pytest.mark.parametrize("kind", CLIENTS)
@given(key=HOSTILE, etag=ETAGS, version=st.none() | HOSTILE, span=RANGES, pays=st.booleans())
@example(key="/", etag="e", version=None, span=None, pays=False)
@example(key="../../a//b/./c/..", etag="e", version="null", span=None, pays=False)
@example(key="%2F%25+ ~", etag="e", version="+/=%", span="bytes=0-", pays=True)
def test_a_request_is_botocores(
    kind: str, *, key: str, etag: str, version: str | None, span: str | None, pays: bool
) -> None:
    """Where it goes and what it says, down to the signature; else the bucket would be botocore's for good."""
    asked = GetRequest(
        bucket="bucket", key=key, etag=etag, version_id=version, range=span, requester_pays=pays
    )
    fast = CLIENTS[kind]
    fast._buckets.clear()

    assert is_supported(asked)
    fast._learn(asked)

    assert fast._buckets["bucket"] is not None


@pytest.mark.parametrize(
    ("given", "bucket", "expected"),
    [
        ({}, "bucket", ("https", "bucket.s3.eu-west-1.amazonaws.com", "/", "eu-west-1")),
        ({}, "with.dots", ("https", "s3.eu-west-1.amazonaws.com", "/with.dots/", "eu-west-1")),
        (
            {
                "config": {"use_fips_endpoint": True, "use_dualstack_endpoint": True},
                "region_name": "us-gov-west-1",
            },
            "bucket",
            ("https", "bucket.s3-fips.dualstack.us-gov-west-1.amazonaws.com", "/", "us-gov-west-1"),
        ),
        (
            {"region_name": "cn-north-1"},
            "bucket",
            ("https", "bucket.s3.cn-north-1.amazonaws.com.cn", "/", "cn-north-1"),
        ),
        ({"endpoint_url": "http://h:80/a"}, "with.dots", ("http", "h", "/a/with.dots/", "eu-west-1")),
        ({"endpoint_url": "http://h:8080"}, "with.dots", ("http", "h:8080", "/with.dots/", "eu-west-1")),
        pytest.param(
            {"config": {"signature_version": UNSIGNED}},
            "b-b",
            ("https", "b-b.s3.eu-west-1.amazonaws.com", "/", None),
            # An address in a test's name would differ from process to process.
            id="unsigned",
        ),
        ({"config": {"signature_version": "s3"}}, "bucket", None),
        ({"config": {"proxies": {"https": "http://proxy:1"}}}, "bucket", None),
        ({"verify": False}, "bucket", None),
        ({"config": {"response_checksum_validation": "when_supported"}}, "bucket", None),
        ({"endpoint_url": "http://user:word@h:8080"}, "bucket", None),
        ({}, "arn:aws:s3:us-west-2:123456789012:accesspoint/mine", None),
    ],
    ids=str,
)
def test_the_endpoint_is_botocores_or_none(
    given: dict[str, Any], bucket: str, expected: tuple[str, str, str, str | None] | None
) -> None:
    """Its rules for endpoints are asked, not repeated; what is not plain is left to it."""
    fast = FastGet(*client_of(**{"region_name": "eu-west-1", **given}))
    fast._learn(GetRequest(bucket=bucket, key="in/key", etag="e"))

    known = fast._buckets[bucket]
    found = known and (
        known.endpoint.origin.scheme,
        known.endpoint.host,
        known.endpoint.prefix,
        known.endpoint.region,
    )
    assert found == expected


def test_without_credentials_nothing_is_decided() -> None:
    """They may come."""
    nowhere = ProviderCredentials(provider=CredentialsProvider.CONTAINER)
    credentials = SigningCredentials(nowhere, region="eu-west-1")
    client = session_with(credentials, region="eu-west-1").create_client("s3", region_name="eu-west-1")
    fast = FastGet(client, credentials)

    with pytest.raises(AccessDenied, match="container"):
        fast.get(GetRequest(bucket="bucket", key="key", etag="e"))
    assert fast._buckets == {}


@pytest.mark.parametrize("etag", ["", "a b", 'a"b', "é", "a\nb", "日本"])
def test_an_unusual_etag_is_botocores(etag: str) -> None:
    """Folding and escaping are its business."""
    assert not is_supported(GetRequest(bucket="bucket", key="key", etag=etag))
