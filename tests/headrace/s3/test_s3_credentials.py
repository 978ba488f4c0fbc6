"""Getting credentials is a step of its own: what fails there is nobody's object, and is tried again."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from headrace.model.errors import AccessDenied, ObjectError
from headrace.options.choices import CredentialsProvider
from headrace.options.settings import Credentials, DefaultCredentials, ProviderCredentials, RoleCredentials
from headrace.s3 import S3Calls
from headrace.s3.upload_calls import new_upload_calls
from tests.headrace.s3.scripted_s3 import KEYS, Say, ScriptedS3, an_object, calls_by, error, said, settings
from tests.spark.sink.upload_settings import PLAIN
from tests.support.credential_service import CredentialService
from tests.support.until import until_sync

ROLE = RoleCredentials(
    arn="arn:aws:iam::000000000000:role/reader",
    session_name="headrace",
    external_id=None,
    duration_seconds=900,
    endpoint=None,
    source=KEYS,
)


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedS3]:
    """An S3 that has one object in every bucket."""
    with ScriptedS3(lambda _: Say(said())) as one:
        yield one


@pytest.fixture
def service() -> Iterator[CredentialService]:
    """A service that gives credentials, or refuses."""
    with CredentialService() as one:
        yield one


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, profile or metadata service but those of the test."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def web_identity(service: CredentialService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A web identity's token file, and STS at the service."""
    token = tmp_path / "token"
    token.write_text("a-web-token")
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE.arn)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.url)
    return token


@pytest.fixture(params=["fast", "botocore"])
def route(request: pytest.FixtureRequest) -> str:
    """Both routes of a GET."""
    found: str = request.param
    return found


def calls(route: str, server: ScriptedS3, credentials: Credentials) -> S3Calls:
    """Calls signed with these credentials."""
    return calls_by(route, settings(server.url, credentials=credentials))


def read(calls: S3Calls) -> bytes:
    """The object's content."""
    body = calls.get(an_object(), begin=0, end=None, by_version=False).body
    try:
        return body.read(100)
    finally:
        body.close()


def refusal(calls: S3Calls) -> str:
    """What a GET is refused with, which has to be nobody's object's; no secret may be in it."""
    with pytest.raises(AccessDenied) as found:
        read(calls)
    told = "".join(traceback.format_exception(found.value))
    assert [word for word in ("hidden-half", "a-temporary", "a-web-token") if word in told] == []
    return str(found.value)


def is_read(calls: S3Calls) -> bool:
    """Whether the object can be read now."""
    try:
        return read(calls) == b"content"
    except AccessDenied:
        return False


@pytest.mark.parametrize(
    ("code", "status"), [("AccessDenied", 403), ("ExpiredToken", 403), ("Throttling", 400), ("Odd", 418)]
)
def test_a_role_that_is_refused_is_no_objects_fault(
    route: str, server: ScriptedS3, service: CredentialService, code: str, status: int
) -> None:
    """The sentence names the option and the role, and STS's own words; granted, it is assumed."""
    service.refuse(code, status, "User x may not assume it")
    asked = calls(route, server, replace(ROLE, endpoint=service.url))

    sentence = refusal(asked)
    assert "aws.sts.role.arn" in sentence
    assert ROLE.arn in sentence
    assert code in sentence
    assert "User x may not assume it" in sentence

    service.grant()
    until_sync(lambda: is_read(asked), what="the object")


def test_a_role_that_is_refused_later_stops_reading_and_comes_back(
    route: str, server: ScriptedS3, service: CredentialService
) -> None:
    """As when somebody takes the trust away for a while: the next renewal tells."""
    service.grant(seconds=60)
    asked = calls(route, server, replace(ROLE, endpoint=service.url))
    assert read(asked) == b"content"

    service.refuse()
    assert "aws.sts.role.arn" in refusal(asked)

    service.grant()
    until_sync(lambda: is_read(asked), what="the object")


@pytest.mark.parametrize("code", ["InvalidIdentityToken", "IDPCommunicationError"])
@pytest.mark.usefixtures("web_identity")
def test_a_web_identity_that_is_refused(
    route: str, server: ScriptedS3, service: CredentialService, code: str
) -> None:
    """Not even when S3 would have answered 400 with such a code itself."""
    service.refuse(code, 400)
    asked = calls(route, server, ProviderCredentials(provider=CredentialsProvider.WEB_IDENTITY))

    sentence = refusal(asked)
    assert "aws.credentials.provider" in sentence
    assert "web identity" in sentence
    assert code in sentence

    service.grant()
    until_sync(lambda: is_read(asked), what="the object")


def test_a_web_identity_whose_file_is_missing(
    route: str, server: ScriptedS3, service: CredentialService, web_identity: Path
) -> None:
    """A volume that is mounted late."""
    service.grant()
    web_identity.unlink()
    asked = calls(route, server, DefaultCredentials())

    assert "aws.credentials.provider" in refusal(asked)

    web_identity.write_text("a-web-token")
    until_sync(lambda: is_read(asked), what="the object")


def test_credentials_that_come_expired(route: str, server: ScriptedS3, service: CredentialService) -> None:
    """Botocore raises a RuntimeError for them, which is no bug of ours."""
    service.grant(seconds=-10)
    asked = calls(route, server, replace(ROLE, endpoint=service.url))

    assert "aws.sts.role.arn" in refusal(asked)

    service.grant()
    until_sync(lambda: is_read(asked), what="the object")


def test_a_single_sign_on_that_nobody_logged_in_to(route: str, server: ScriptedS3, tmp_path: Path) -> None:
    """Its cached token cannot be loaded: an error of botocore's that is none of its refusals."""
    (tmp_path / "config").write_text(
        "[default]\nsso_session = one\nsso_account_id = 1\nsso_role_name = reader\n"
        "[sso-session one]\nsso_region = eu-west-1\nsso_start_url = https://sso.invalid/start\n"
    )
    asked = calls(route, server, ProviderCredentials(provider=CredentialsProvider.PROFILE))

    sentence = refusal(asked)
    assert "aws.credentials.provider" in sentence
    assert "profile" in sentence


def test_no_credentials_at_first(
    route: str, server: ScriptedS3, service: CredentialService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failed call of the metadata service: nothing is asked unsigned, and the next time is another."""
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)
    asked = calls(route, server, DefaultCredentials())
    server.asked.clear()

    assert "aws.credentials.provider" in refusal(asked)
    assert server.asked == []

    service.grant()
    until_sync(lambda: is_read(asked), what="the object")
    assert [one for one in server.asked if "authorization" not in one.headers] == []


def test_failures_are_not_asked_for_again_at_once(server: ScriptedS3, service: CredentialService) -> None:
    """A batch of a thousand objects is not a thousand calls of STS."""
    asked = calls("fast", server, replace(ROLE, endpoint=service.url))
    for _ in range(50):
        refusal(asked)

    assert service.asked["AssumeRole"] <= 5


def test_short_sessions_are_not_renewed_with_each_request(
    server: ScriptedS3, service: CredentialService
) -> None:
    """Botocore would renew within 15 minutes of the end, which is all of the shortest session."""
    service.grant(seconds=900)
    asked = calls("fast", server, replace(ROLE, endpoint=service.url))
    for _ in range(20):
        assert read(asked) == b"content"

    assert service.asked["AssumeRole"] == 1


@dataclass(frozen=True, slots=True)
class Profile:
    """The file with the keys of a profile."""

    file: Path

    def has(self, access_key: str) -> None:
        """These are its keys from now on."""
        self.file.write_text(f"[default]\naws_access_key_id = {access_key}\naws_secret_access_key = x\n")

    def calls(self, route: str, server: ScriptedS3) -> S3Calls:
        """Calls that have read an object with the keys, which were renewed since."""
        self.has("OLD")
        asked = calls(route, server, ProviderCredentials(provider=CredentialsProvider.PROFILE))
        assert read(asked) == b"content"
        self.has("RENEWED")
        server.asked.clear()
        return asked


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """A file without keys yet."""
    return Profile(tmp_path / "credentials")


def signers(server: ScriptedS3) -> list[str]:
    """Whose keys have signed each request."""
    return ["RENEWED" if "RENEWED" in one.headers["authorization"] else "OLD" for one in server.asked]


EXPIRED = Say(error("ExpiredToken", 400))
NO_OBJECTS = Say(said(b"<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated></ListBucketResult>"))


def begun(calls: S3Calls) -> bytes:
    """The object's content, by a GET that was sent before."""
    sent = calls.begin(an_object(), by_version=False)
    assert sent is not None
    assert sent.content(7) is None, "it is a refusal"
    answer = sent.answer()
    assert answer is not None
    with closing(answer.body) as body:
        return body.read(100)


@pytest.mark.parametrize(
    ("route", "call", "answers"),
    [
        ("fast", read, [EXPIRED]),
        ("botocore", read, [EXPIRED]),
        ("fast", begun, [EXPIRED]),
        ("fast", lambda calls: b"".join(calls.listed("b", "")), [EXPIRED, NO_OBJECTS]),
    ],
    ids=["get", "botocore's get", "begun get", "listing"],
)
def test_keys_of_a_file_that_are_refused_are_read_again(
    server: ScriptedS3, profile: Profile, route: str, call: Callable[[S3Calls], bytes], answers: list[Say]
) -> None:
    """Somebody renews temporary keys in the profile: what S3 refuses for the old is asked again at once."""
    asked = profile.calls(route, server)
    server.says(*answers)

    assert call(asked) in {b"content", b""}
    assert signers(server) == ["OLD", "RENEWED"]


def test_keys_that_stay_refused(route: str, server: ScriptedS3, profile: Profile) -> None:
    """What was signed again is not asked a third time."""
    asked = profile.calls(route, server)
    server.says(EXPIRED, EXPIRED)

    assert "Renew them" in refusal(asked)
    assert signers(server) == ["OLD", "RENEWED"]


@pytest.mark.parametrize(("status", "refused"), [(400, 2), (403, 1)])
def test_keys_of_a_file_that_a_head_is_refused_for_are_read_again(
    server: ScriptedS3, profile: Profile, status: int, refused: int
) -> None:
    """S3 says no more than that to a HEAD: 400 of an ended session, 403 of keys that were deleted.

    After a 400 botocore asks for the bucket's region, by another HEAD. A 403 is likely to be of a right: it
    is not asked again.
    """
    asked = profile.calls("botocore", server)
    server.says(
        *[Say(said(b"", status=status))] * refused,
        Say(said(b"", "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT")),
    )

    if status == 403:
        with pytest.raises(ObjectError, match="grant s3"):
            asked.head("bucket", "key")

    assert asked.head("bucket", "key").id == an_object().id
    assert signers(server) == [*["OLD"] * refused, "RENEWED"]


def test_an_upload_is_looked_for_with_renewed_keys(server: ScriptedS3, profile: Profile) -> None:
    """The HEAD that a session's end refuses is signed again, with what the file has."""
    profile.has("OLD")
    given = settings(server.url, credentials=ProviderCredentials(provider=CredentialsProvider.PROFILE))
    uploads = new_upload_calls(given, PLAIN)
    server.says(Say(said(b"")))
    assert uploads.head_metadata("bucket", "key") == {}
    profile.has("RENEWED")
    server.says(*[Say(said(b"", status=400))] * 2, Say(said(b"")))

    assert uploads.head_metadata("bucket", "key") == {}
    assert signers(server)[-1] == "RENEWED"
