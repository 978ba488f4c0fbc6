"""From which age a bucket ends unfinished uploads, as S3 says it."""

import pytest
from structlog.testing import capture_logs

from headrace.model.errors import HeadraceError
from headrace.s3.s3_calls import upload_expiry
from tests.headrace.s3.scripted_s3 import Say, ScriptedS3, error, said, settings

_DAY_MS = 86_400_000


def _rule(days: int, where: str = "<Filter/>", *, status: str = "Enabled") -> str:
    action = f"<DaysAfterInitiation>{days}</DaysAfterInitiation>"
    return (
        f"<Rule><Status>{status}</Status>{where}"
        f"<AbortIncompleteMultipartUpload>{action}</AbortIncompleteMultipartUpload></Rule>"
    )


def _rules(*rules: str) -> bytes:
    return said(f"<LifecycleConfiguration>{''.join(rules)}</LifecycleConfiguration>".encode())


_ANSWERS = {
    "seven": _rules(_rule(7)),
    "by-prefix": _rules(
        _rule(9, "<Filter><Prefix></Prefix></Filter>"),
        _rule(5, "<Filter><Prefix>a/</Prefix></Filter>"),
        _rule(4, "<Filter><And><Prefix>a/b/</Prefix></And></Filter>"),
        _rule(3, "<Prefix>a/c/</Prefix>"),
        _rule(2, status="Disabled"),
        "<Rule><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule>",
    ),
    "none": error("NoSuchLifecycleConfiguration", 404),
    "denied": error("AccessDenied", 403),
    "unknown": error("NotImplemented", 501),
}


_SEVEN = _ANSWERS["seven"]


@pytest.mark.parametrize(
    ("answers", "days", "asked"),
    [
        ([error("SlowDown", 503), _SEVEN], [7, 7], 2),
        ([error("ExpiredToken", 400), _SEVEN], [7, 7], 2),
        ([error("SlowDown", 503)] * 2 + [_SEVEN], ["SlowDown", 7], 3),
        ([error("ExpiredToken", 400)] * 2 + [_SEVEN], ["ExpiredToken", 7], 3),
        ([error("NoSuchBucket", 404), _SEVEN], ["NoSuchBucket", 7], 2),
        ([error("InvalidRequest", 400)] * 2, [1, 1], 2),
        ([error("AccessDenied", 403)], [1, 1], 1),
    ],
    ids=["retried", "signed again", "away", "keys ended", "no bucket yet", "unknown to the store", "denied"],
)
def test_what_passes_is_no_rule(answers: list[bytes], days: list[int | str], asked: int) -> None:
    """Where S3 does not answer for now, nothing is known, and the next upload asks again."""
    with ScriptedS3(_usual) as server, capture_logs() as lines:
        server.says(*map(Say, answers))
        expiry_ms = upload_expiry(settings(server.url, retries=1))
        for each in days:
            if isinstance(each, int):
                assert expiry_ms("bucket", "k") == each * _DAY_MS
            else:
                with pytest.raises(HeadraceError, match=rf"the lifecycle of s3://bucket .*{each}"):
                    expiry_ms("bucket", "k")
        assert len(server.asked) == asked
    assert len(lines) == (1 if days == [1, 1] else 0)


def _usual(path: str) -> Say:
    return Say(_ANSWERS[path.removeprefix("/").partition("?")[0]])


@pytest.mark.parametrize(
    ("bucket", "key", "days"),
    [
        ("seven", "t/0", 7),
        ("none", "t/0", None),
        ("by-prefix", "t/0", 9),
        ("by-prefix", "a/0", 5),
        ("by-prefix", "a/b/0", 4),
        ("by-prefix", "a/c/0", 3),
        ("denied", "t/0", 1),
        ("unknown", "t/0", 1),
    ],
)
def test_the_rule_is_that_of_the_bucket_and_key(bucket: str, key: str, days: int | None) -> None:
    """Whatever bucket the settings name; where it may not be read, the shortest that S3 has."""
    with ScriptedS3(_usual) as server:
        assert upload_expiry(settings(server.url))(bucket, key) == (None if days is None else days * _DAY_MS)


def test_a_bucket_is_asked_once() -> None:
    """In five minutes. Also one that does not say, of which one line has the right that it needs."""
    clock = 0.0
    with ScriptedS3(_usual) as server, capture_logs() as lines:
        expiry_ms = upload_expiry(settings(server.url), now=lambda: clock)
        assert not server.asked
        for times in (1, 2):
            for bucket in ("denied", "by-prefix") * 3:
                expiry_ms(bucket, "t/0")
            assert [each.path for each in server.asked] == [
                "/denied?lifecycle",
                "/by-prefix?lifecycle",
            ] * times
            clock += 300
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("lifecycle_not_read", "warning")
    assert line["remedy"].endswith(" on arn:aws:s3:::denied")


def test_a_rule_that_is_made_meanwhile_is_met() -> None:
    """A leader leads for months: lost objects counted as complete by the rule of its first question."""
    clock = 0.0
    with ScriptedS3(_usual) as server:
        server.says(Say(_ANSWERS["none"]), Say(_ANSWERS["seven"]), Say(_ANSWERS["none"]))
        expiry_ms = upload_expiry(settings(server.url), now=lambda: clock)
        for at, days in ((0.0, 0), (299.0, 0), (300.0, 7), (599.0, 7), (600.0, 0)):
            clock = at
            assert expiry_ms("bucket", "k") == (days * _DAY_MS or None)


def test_what_is_refused_again_is_said_again() -> None:
    """A right that was taken away once more is news."""
    clock = 0.0
    with ScriptedS3(_usual) as server, capture_logs() as lines:
        server.says(Say(_ANSWERS["denied"]), Say(_ANSWERS["seven"]), Say(_ANSWERS["denied"]))
        expiry_ms = upload_expiry(settings(server.url), now=lambda: clock)
        for _ in range(3):
            expiry_ms("bucket", "k")
            clock += 300
    assert [line["event"] for line in lines] == ["lifecycle_not_read"] * 2
