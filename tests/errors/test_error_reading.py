"""Objects that cannot be read, for a while or at all: damage, S3 failing, 403, 404, 412, archives."""

import gzip
from functools import partial
from typing import Final

import cramjam
import pytest

from headrace.model.ledger_entry import State
from tests.errors.harness import ATTEMPTS, CALLS, Stand, counted, json_lines
from tests.support import aws
from tests.support.discovery import log_lines
from tests.support.proxy import Answer, Cut, Fault, Request, Silent, Truncate
from tests.support.until import until_sync

pytestmark = [pytest.mark.parts, pytest.mark.timeout(600)]


def xml(code: str, status: int) -> Answer:
    """An error as S3 words it."""
    return Answer(status=status, body=f"<Error><Code>{code}</Code><Message>so</Message></Error>".encode())


SLOW_DOWN: Final = xml("SlowDown", 503)
FORBIDDEN: Final = xml("AccessDenied", 403)
EXPIRED: Final = xml("ExpiredToken", 400)
NO_BUCKET: Final = xml("NoSuchBucket", 404)
LINES: Final = json_lines(*counted(2000))


def torn_gzip() -> bytes:
    """The first half of a gzip file."""
    packed = gzip.compress(LINES)
    return packed[: len(packed) // 2]


def damaged_gzip() -> bytes:
    """A gzip file whose end does not fit its content."""
    packed = bytearray(gzip.compress(LINES))
    packed[-6] ^= 0xFF
    return bytes(packed)


class TestUnsupported:
    """Compressions that are recognised and not supported."""

    @pytest.mark.parametrize(
        ("name", "body", "words"),
        [
            pytest.param("orders.zip", b"PK\x03\x04" + bytes(200), "a zip archive", id="zip"),
            pytest.param("orders.jsonl.br", bytes(cramjam.brotli.compress(LINES)), "brotli", id="brotli"),
            pytest.param("orders.gz", gzip.compress(gzip.compress(LINES)), "gzip within gzip", id="twice"),
        ],
    )
    def test_it_is_quarantined_at_once_and_named(
        self, one: Stand, name: str, body: bytes, words: str
    ) -> None:
        """No row, no second attempt, and the sentence says what the object is."""
        topic = one.topic()
        key = f"{topic}/{name}"
        one.put(key, body)
        end = one.await_end(key)

        assert (end["outcome"], end["reason"], end["records"]) == ("quarantined", "unsupported", 0)
        assert words in end["error"]
        assert len(one.gets(key)) == 1 + one.again(key)
        one.goes_on(topic)
        assert [value for value in one.values(topic) if value != b'{"id":"beside"}'] == []


class TestDamage:
    """A corrupt or truncated object."""

    @pytest.mark.parametrize(
        ("body", "rows"),
        [
            pytest.param(torn_gzip(), range(100, 2000), id="torn"),
            pytest.param(damaged_gzip(), range(1, 2001), id="damaged at its end", marks=pytest.mark.long),
            pytest.param(b"\x1f\x8b\x08\x00 no gzip", range(1), id="nothing", marks=pytest.mark.long),
        ],
    )
    def test_rows_before_it_are_kept_and_attempts_end_in_quarantine(
        self, one: Stand, body: bytes, rows: range
    ) -> None:
        """Each attempt reads once, rows are never repeated, and the last one gives up."""
        topic = one.topic()
        key = f"{topic}/torn"
        one.put(key, body)
        one.goes_on(topic)
        end = one.await_end(key)

        assert (end["outcome"], end["reason"], end["attempts"]) == ("quarantined", "corrupt", ATTEMPTS)
        kept = [value for value in one.values(topic) if b"row-" in value]
        assert kept == LINES.splitlines()[: len(kept)]
        assert len(kept) in rows
        assert end["records"] == len(kept)
        kinds = [line["kind"] for line in one.failures(key)]
        assert kinds == ["ObjectCorrupt"] * ATTEMPTS
        assert len(one.answered(key)) == ATTEMPTS + one.again(key)
        assert one.readiness()[0]

    def test_an_upload_that_is_repeated_whole_is_another_object(self, one: Stand) -> None:
        """What was torn stays as far as it came; the whole content has another ETag, and is read whole."""
        topic = one.topic()
        key = f"{topic}/again"
        one.put(key, torn_gzip())
        until_sync(lambda: one.failures(key), what="a failed attempt")
        one.put(key, gzip.compress(LINES))
        until_sync(
            lambda: (end := one.end(key)) is not None and end["outcome"] == "done",
            seconds=60,
            what="the whole content",
        )
        end = one.end(key)
        assert end is not None
        assert end["records"] == 2000
        assert one.values(topic)[-2000:] == LINES.splitlines()

    def test_reading_is_enough_when_only_the_way_was_torn(self, one: Stand) -> None:
        """A body that ends early by its own Content-Length is no damage: the rest is asked for."""
        topic = one.topic()
        key = f"{topic}/short"
        one.proxy.on(Truncate(5000), when=lambda request: one.is_get(request, key), times=2)
        one.put(key, LINES)
        assert one.await_end(key)["records"] == 2000
        assert one.failures(key) == []


class TestSource:
    """S3 throttles, fails, resets, and cuts short."""

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(SLOW_DOWN, id="throttling"),
            pytest.param(xml("InternalError", 500), id="500", marks=pytest.mark.long),
            pytest.param(
                Answer(status=502, body=b"<html>", content_type="text/html"), id="502", marks=pytest.mark.long
            ),
            pytest.param(Cut(0), id="reset"),
            pytest.param(Cut(4000), id="cut short", marks=pytest.mark.long),
        ],
    )
    def test_a_short_failure_is_retried_inside_the_call(self, one: Stand, fault: Fault) -> None:
        """The object never goes back: one attempt, and just the GETs that it took."""
        topic = one.topic()
        key = f"{topic}/short"
        one.proxy.on(fault, when=lambda request: one.is_get(request, key), times=CALLS - 1)
        one.put(key, LINES)

        assert one.await_end(key)["records"] == 2000
        assert len(one.gets(key)) == CALLS + one.again(key)
        assert one.failures(key) == []
        assert sorted(one.values(topic)) == sorted(LINES.splitlines())

    def test_a_long_failure_sends_the_object_back_without_an_upper_number(self, one: Stand) -> None:
        """Calls of so many GETs, one after the other with growing pauses: retries never multiply."""
        topic = one.topic()
        key = f"{topic}/long"
        one.proxy.on(SLOW_DOWN, when=lambda request: one.is_get(request, key))
        one.put(key, LINES)
        until_sync(lambda: len(one.failures(key)) > ATTEMPTS + 1, seconds=60, what="more than all attempts")
        one.goes_on(topic)
        one.proxy.off()

        assert {line["kind"] for line in one.failures(key)} == {"SourceUnavailable"}
        end = one.await_end(key)
        assert (end["outcome"], end["attempts"]) == ("done", 0)
        # Counted in the end: while it is tried the log comes after what the proxy has seen.
        attempts, gets = len(one.failures(key)), len(one.gets(key)) - one.again(key)
        assert attempts * CALLS < gets <= (attempts + 1) * CALLS
        assert len([value for value in one.values(topic) if b"row-" in value]) == 2000

    def test_a_read_that_is_cut_goes_on_by_range(self, one: Stand) -> None:
        """Every byte once: the second GET asks for what is missing, of the same content."""
        topic = one.topic()
        key = f"{topic}/large"
        body = json_lines(*({"id": str(n), "fill": "x" * 1000} for n in range(3000)))
        # Not reset: what was sent and not read yet would be lost with it, and the first chunk with that.
        one.proxy.on(Truncate(1_500_000), when=lambda request: one.is_get(request, key), times=1)
        one.put(key, body)
        assert one.await_end(key)["records"] == 3000
        first, second = one.gets(key)[:2]
        assert "range" not in first.headers
        begin = int(second.headers["range"].removeprefix("bytes=").removesuffix("-"))
        assert 0 < begin <= 1_500_000
        assert second.headers["if-match"] == first.headers["if-match"]
        assert one.values(topic) == body.splitlines()

    @pytest.mark.long
    @pytest.mark.timeout(600)
    def test_a_silent_source_is_given_up_in_time(self, one: Stand) -> None:
        """A request that is never answered ends by its own timeout, and is made again."""
        topic = one.topic()
        key = f"{topic}/silent"
        one.proxy.on(Silent(), when=lambda request: one.is_get(request, key), times=1)
        one.put(key, LINES)
        assert one.await_end(key, seconds=180)["records"] == 2000


class TestOneForbidden:
    """403 on one object while others read."""

    def test_attempts_then_quarantine(self, one: Stand) -> None:
        """One GET an attempt: no retry inside the call can help."""
        topic = one.topic()
        key = f"{topic}/forbidden"
        one.goes_on(topic)
        one.proxy.on(FORBIDDEN, when=lambda request: one.is_get(request, key))
        one.put(key, LINES)
        end = one.await_end(key)
        one.goes_on(topic)

        assert (end["outcome"], end["reason"], end["attempts"]) == ("quarantined", "forbidden", ATTEMPTS)
        assert "s3:GetObject" in end["error"]
        # One more where the first came before anything else was read.
        assert ATTEMPTS <= len(one.gets(key)) - one.again(key) <= ATTEMPTS + 2
        assert one.readiness()[0]

    def test_it_is_granted_in_time(self, one: Stand) -> None:
        """Before the attempts are used up."""
        topic = one.topic()
        key = f"{topic}/granted"
        one.goes_on(topic)
        one.proxy.on(FORBIDDEN, when=lambda request: one.is_get(request, key), times=ATTEMPTS - 1)
        one.put(key, LINES)
        assert one.await_end(key)["outcome"] == "done"


class TestAllForbidden:
    """403, expired credentials and an unknown bucket, for everything."""

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(FORBIDDEN, id="403"),
            pytest.param(EXPIRED, id="expired"),
            pytest.param(NO_BUCKET, id="unknown bucket", marks=pytest.mark.long),
            pytest.param(xml("InvalidAccessKeyId", 403), id="unknown key", marks=pytest.mark.long),
        ],
    )
    def test_it_is_not_ready_says_so_and_gives_nothing_up(self, one: Stand, fault: Fault) -> None:
        """However often it is tried; and goes on by itself once it is granted again."""
        topic = one.topic()
        one.await_quiet()
        keys = [f"{topic}/{number}" for number in range(5)]
        one.proxy.on(fault)
        for key in keys:
            one.put(key, LINES)
        words = one.await_ready(ready=False)
        reached = len(one.proxy.requests)
        until_sync(
            lambda: (
                sum(request.method == "GET" for request in one.proxy.requests[reached:])
                > ATTEMPTS * len(keys)
            ),
            seconds=180,
            what="more GETs than all attempts together",
        )
        status = one.service.status()
        assert "s3://" in words or "aws.s3.bucket.name" in words
        assert status["problems"]
        assert status["last_error"]
        assert [key for key in keys if one.end(key) is not None] == []
        one.proxy.off()

        one.await_ready(ready=True)
        for key in keys:
            end = one.await_end(key)
            assert end["outcome"] == "done"
            # A GET may be refused just before it is granted, and its witness be read just after.
            assert end["attempts"] <= 1
        assert len(one.values(topic)) == 2000 * len(keys)
        assert "objects" not in one.service.status()["problems"]

    def test_a_key_that_nobody_may_use_any_more(self, one: Stand) -> None:
        """`kms:Decrypt` lost: every GET is refused, while a HEAD, which decrypts nothing, still answers."""
        topic = one.topic()
        one.goes_on(topic)
        one.await_quiet()
        keys = [f"{topic}/{number}" for number in range(3)]
        is_reading = partial(_is_reading, one)
        one.proxy.on(FORBIDDEN, when=is_reading)
        for key in keys:
            one.put(key, LINES)
        words = one.await_ready(ready=False)
        assert "kms:Decrypt" in words
        assert all((entry := one.entry(key)) is None or entry.state is not State.QUARANTINED for key in keys)
        reached = len(one.proxy.requests)
        until_sync(
            lambda: sum(map(is_reading, one.proxy.requests[reached:])) > ATTEMPTS * len(keys),
            seconds=180,
            what="more GETs than all attempts together",
        )
        one.proxy.off()
        for key in keys:
            assert one.await_end(key)["outcome"] == "done"
        one.await_ready(ready=True)

    def test_throttling_by_the_key_service_is_no_attempt(self, one: Stand) -> None:
        """It comes with 400, as if the request were wrong."""
        topic = one.topic()
        key = f"{topic}/throttled"
        one.goes_on(topic)
        one.proxy.on(xml("KMS.ThrottlingException", 400), when=lambda request: one.is_get(request, key))
        one.put(key, LINES)
        until_sync(lambda: len(one.failures(key)) > ATTEMPTS, seconds=60, what="more than all attempts")
        one.proxy.off()
        end = one.await_end(key)
        assert (end["outcome"], end["attempts"]) == ("done", 0)


def _is_reading(one: Stand, request: Request) -> bool:
    """True for a GET of any object, and for no listing."""
    path = request.path.partition("?")[0].rstrip("/")
    return request.method == "GET" and not path.endswith(one.route.bucket)


class TestGone:
    """404, 412 and archives."""

    def test_missing(self, one: Stand) -> None:
        """Deleted between announcement and reading: skipped, nothing produced, and no alarm."""
        topic = one.topic()
        key = f"{topic}/gone"
        one.proxy.on(xml("NoSuchKey", 404), when=lambda request: one.is_get(request, key))
        one.put(key, LINES)
        end = one.await_end(key)
        assert (end["outcome"], end["reason"], end["records"]) == ("skipped", "missing", 0)
        assert len(one.gets(key)) == 1 + one.again(key)
        one.goes_on(topic)

    def test_superseded_after_rows(self, one: Stand) -> None:
        """Overwritten while it was read: its rows stay, `records` says how many, and there is one WARN."""
        topic = one.topic()
        key = f"{topic}/overwritten"
        body = json_lines(*({"id": str(n), "fill": "x" * 1000} for n in range(4000)))
        # Not Cut: a reset takes back what a slow client has not read yet, which may be all.
        one.proxy.on(Truncate(3_000_000), when=lambda request: one.is_get(request, key), times=1)
        one.proxy.on(xml("PreconditionFailed", 412), when=lambda request: one.is_get(request, key))
        one.put(key, body)
        end = one.await_end(key)
        assert (end["outcome"], end["reason"]) == ("skipped", "superseded")
        assert 0 < end["records"] < 4000
        assert one.values(topic) == body.splitlines()[: end["records"]]
        said = [line["warning"] for line in log_lines(one.service, "listing_warned")]
        (warning,) = [line for line in said if key in line]
        assert str(end["records"]) in warning

    def test_archived(self, one: Stand) -> None:
        """What has to be restored first is skipped, and no attempt is counted."""
        topic = one.topic()
        key = f"{topic}/archived"
        one.proxy.on(xml("InvalidObjectState", 403), when=lambda request: one.is_get(request, key))
        one.put(key, LINES)
        end = one.await_end(key)
        assert (end["outcome"], end["reason"], end["attempts"]) == ("skipped", "archived", 0)
        assert one.readiness()[0]


class TestVersions:
    """403 on reading by version: the credentials have s3:GetObject and not s3:GetObjectVersion."""

    def test_it_is_read_by_etag_instead(self, one: Stand) -> None:
        """`If-Match` pins the content as well as a version does; one WARN says what is missing."""
        topic = one.topic()
        keys = [f"{topic}/version-{number}" for number in range(5)]
        versioning = partial(aws.s3().put_bucket_versioning, Bucket=one.route.bucket)
        versioning(VersioningConfiguration={"Status": "Enabled"})
        one.proxy.on(FORBIDDEN, when=lambda request: "versionId=" in request.path)
        versions = {key: one.put(key, LINES) for key in keys}
        versioning(VersioningConfiguration={"Status": "Suspended"})
        for key in keys:
            assert one.await_end(key)["outcome"] == "done"
            by_version, by_etag = one.gets(key)[:2]
            assert f"versionId={versions[key]}" in by_version.path
            assert "versionId" not in by_etag.path
            assert by_etag.headers["if-match"] == by_version.headers["if-match"]
            assert one.failures(key) == []
        said = [line for line in log_lines(one.service, "version_forbidden") if topic in line["object"]]
        assert 1 <= len(said) <= 2, "one from each worker"
