"""Open objects of a slot: what goes in comes out of the bucket, whatever is spilled, slow or refused."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.clock import wall_ms
from headrace.model.sink_entries import SealedObject, Upload
from headrace.s3.client import UploadEnded
from headrace.s3.completion import CompletionState
from spark.sink.slot_uploads import SlotUploads
from spark.sink.spill import SpillLost
from tests.spark.sink.bytes_encoder import BytesEncoder, as_records
from tests.spark.sink.upload_settings import upload_calls
from tests.support import aws
from tests.support.proxy import Answer, Proxy, Request, Slow
from tests.support.until import until_sync

MIB = 1024 * 1024


def sealed_object(bucket: str, object_id: str, *uploads: Upload) -> SealedObject:
    """A ledger entry of these uploads."""
    return SealedObject(
        id=object_id,
        topic="t",
        partition=0,
        topic_id="",
        group="",
        first_offset=0,
        last_offset=0,
        records=1,
        bytes=1,
        uploads=uploads,
        options="",
        sealed_ms=0,
        bucket=bucket,
    )


@pytest.mark.parts
@pytest.mark.parametrize("is_late", [False, True], ids=["name known", "name known at the end"])
@pytest.mark.parametrize("max_bytes", [64 * MIB, 1], ids=["in memory", "spilled"])
def test_round_trip(tmp_path: Path, *, is_late: bool, max_bytes: int) -> None:
    """12 MiB in three parts, and a small object in one, complete with what was put in."""
    bucket = aws.new_bucket()
    uploads = SlotUploads(upload_calls(bucket), part_bytes=5 * MIB, max_bytes=max_bytes, directory=tmp_path)
    content = {"large": random.Random(1).randbytes(12 * MIB), "small": b"one row\n"}
    opened = {
        name: uploads.open(
            BytesEncoder(), object_id=f"id-{name}", bucket=bucket, key=None if is_late else name
        )
        for name in content
    }
    for name, data in content.items():
        for begin in range(0, len(data), MIB):
            opened[name].add(as_records(data[begin : begin + MIB]))
            uploads.balance()
    assert (uploads.spilled_bytes > 0) == (max_bytes == 1)
    sealed = {name: one.seal(key=name if is_late else None) for name, one in opened.items()}
    found = {name: future.result(60) for name, future in sealed.items()}
    assert {name: len(upload.parts) for name, upload in found.items()} == {"large": 3, "small": 1}
    # By S3's clock and ours an upload that is gone is told from one that cannot have expired.
    assert all(0 <= wall_ms() - upload.started_ms < 600_000 for upload in found.values())
    assert uploads.buffered_bytes == uploads.spilled_bytes == 0
    assert aws.s3().list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    for name, upload in found.items():
        completion = uploads.complete(sealed_object(bucket, f"id-{name}", upload)).result(60)
        assert completion.state is CompletionState.COMPLETED
        answer = aws.s3().get_object(Bucket=bucket, Key=name)
        assert answer["Body"].read() == content[name]
        assert answer["Metadata"] == {"headrace-object": f"id-{name}"}
    uploads.close()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """LocalStack, as long as nothing else is asked of it."""
    with Proxy(aws.address()) as made:
        yield made


def is_part(request: Request) -> bool:
    """A part."""
    return request.method == "PUT" and "partNumber=" in request.path


@pytest.mark.parts
def test_a_slow_s3_bounds_what_waits_for_it(tmp_path: Path, proxy: Proxy) -> None:
    """1 MiB a second: the slot is asked to pause and told why, memory is bounded, and nothing is lost."""
    bucket, max_bytes, step = aws.new_bucket(), 10 * MIB, 256 * 1024
    calls = upload_calls(bucket, endpoint=proxy.url)
    uploads = SlotUploads(
        calls, part_bytes=5 * MIB, max_bytes=max_bytes, directory=tmp_path, threads=2, slow_seconds=2.0
    )
    proxy.on(Slow(request_bytes_per_second=MIB), when=is_part)
    content = random.Random(2).randbytes(12 * MIB)
    opened = uploads.open(BytesEncoder(), object_id="id", bucket=bucket, key="slow")
    pauses, most, sentences = 0, 0, set[str]()
    for begin in range(0, len(content), step):
        while uploads.is_full:
            pauses += 1
            uploads.wait(0.2)
            uploads.balance()
            sentences.add(uploads.problems().get("s3", ""))
        opened.add(as_records(content[begin : begin + step]))
        uploads.balance()
        most = max(most, uploads.buffered_bytes)
    upload = opened.seal().result(60)
    assert pauses > 5
    assert most <= max_bytes + step
    # Neither at once, nor any more.
    assert "" in sentences
    assert any(sentence.startswith("S3 takes parts slowly: 5 MiB are on their way") for sentence in sentences)
    uploads.balance()
    assert uploads.problems() == {}
    assert uploads.complete(sealed_object(bucket, "id", upload)).result(60).state is CompletionState.COMPLETED
    assert aws.s3().get_object(Bucket=bucket, Key="slow")["Body"].read() == content
    uploads.close()


@pytest.mark.parts
def test_an_s3_that_is_away_is_waited_for_visibly(tmp_path: Path, proxy: Proxy) -> None:
    """Sealing and completing are repeated beyond the retries of a call, until it answers."""
    bucket = aws.new_bucket()
    calls = upload_calls(bucket, endpoint=proxy.url, retries=0)
    uploads = SlotUploads(calls, part_bytes=5 * MIB, max_bytes=MIB, directory=tmp_path)
    proxy.on(Answer(status=503), when=lambda request: request.method != "HEAD")
    sealed = {}
    for number in range(12):
        opened = uploads.open(BytesEncoder(), object_id=f"{number}", bucket=bucket, key=f"{number}")
        opened.add(as_records(b"row\n" * number))
        sealed[number] = opened.seal()
    until_sync(lambda: "could not be written for now" in uploads.problems().get("s3", ""))
    assert not any(future.done() for future in sealed.values())
    proxy.off()
    found = {number: future.result(60) for number, future in sealed.items()}
    until_sync(lambda: uploads.problems() == {})
    proxy.on(Answer(status=503))
    completed = [uploads.complete(sealed_object(bucket, f"{n}", upload)) for n, upload in found.items()]
    until_sync(uploads.problems)
    proxy.off()
    assert {future.result(60).state for future in completed} == {CompletionState.COMPLETED}
    listed = aws.s3().list_objects_v2(Bucket=bucket)["Contents"]
    assert {one["Key"]: one["Size"] for one in listed} == {str(number): 4 * number for number in range(12)}
    uploads.close()


@pytest.mark.parts
def test_an_upload_that_was_ended_cannot_be_sealed(tmp_path: Path) -> None:
    """A lifecycle rule ended it in between: the slot is told, and what was sent is not taken for all."""
    bucket = aws.new_bucket()
    uploads = SlotUploads(upload_calls(bucket), part_bytes=5 * MIB, max_bytes=MIB, directory=tmp_path)
    opened = uploads.open(BytesEncoder(), object_id="id", bucket=bucket, key="ended")
    opened.add(as_records(bytes(5 * MIB)))
    until_sync(lambda: not uploads.is_full)
    (upload,) = aws.s3().list_multipart_uploads(Bucket=bucket)["Uploads"]
    aws.s3().abort_multipart_upload(Bucket=bucket, Key="ended", UploadId=upload["UploadId"])
    opened.add(as_records(b"rest"))
    with pytest.raises(UploadEnded):
        opened.seal().result(60)
    assert isinstance(opened.failure, UploadEnded)
    uploads.close()


@pytest.mark.parts
def test_what_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    """Neither memory, nor disk, nor an upload; others are not touched."""
    bucket = aws.new_bucket()
    uploads = SlotUploads(upload_calls(bucket), part_bytes=5 * MIB, max_bytes=1, directory=tmp_path)
    opened = [
        uploads.open(BytesEncoder(), object_id="id", bucket=bucket, key=key) for key in ("begun", "not", None)
    ]
    for one, size in zip(opened, (7 * MIB, MIB, 6 * MIB), strict=True):
        one.add(as_records(bytes(size)))
        uploads.balance()
    kept = uploads.open(BytesEncoder(), object_id="kept", bucket=bucket, key="kept")
    kept.add(as_records(b"kept"))
    for one in opened:
        one.abandon()
    until_sync(lambda: uploads.buffered_bytes == 4 and uploads.spilled_bytes == 0)
    upload = kept.seal().result(60)
    until_sync(
        lambda: (
            [one["Key"] for one in aws.s3().list_multipart_uploads(Bucket=bucket).get("Uploads", [])]
            == [upload.key]
        )
    )
    uploads.close()


def test_a_disk_that_refuses_is_a_problem_that_passes(tmp_path: Path) -> None:
    """Nothing is lost, the slot pauses, and it is tried again by each balance."""
    directory = tmp_path / "buffer"
    directory.write_text("this is a file")
    calls = upload_calls("nobody", endpoint="http://127.0.0.1:1")
    uploads = SlotUploads(calls, part_bytes=5 * MIB, max_bytes=1000, directory=directory)
    opened = uploads.open(BytesEncoder(), object_id="id", bucket="nobody", key=None)
    opened.add(as_records(bytes(900)))
    uploads.balance()
    assert (uploads.problems(), uploads.is_full) == ({}, False)
    opened.add(as_records(bytes(900)))
    uploads.balance()
    assert f"buffer.dir = {directory} takes no more bytes (" in uploads.problems()["disk"]
    assert uploads.is_full
    assert (uploads.buffered_bytes, uploads.spilled_bytes, opened.size) == (1800, 0, 1800)
    directory.unlink()
    uploads.balance()
    assert (uploads.problems(), uploads.is_full) == ({}, False)
    assert (uploads.buffered_bytes, uploads.spilled_bytes, opened.size) == (0, 1800, 1800)
    uploads.close()


def test_an_object_whose_spilled_bytes_are_gone_has_failed(tmp_path: Path) -> None:
    """Whether more is to be spilled or it is to be sent; the slot goes on, and reads its records again."""
    calls = upload_calls("nobody", endpoint="http://127.0.0.1:1")
    uploads = SlotUploads(calls, part_bytes=5 * MIB, max_bytes=1000, directory=tmp_path)
    opened = uploads.open(BytesEncoder(), object_id="id", bucket="nobody", key=None)
    opened.add(as_records(bytes(1800)))
    uploads.balance()
    assert (uploads.spilled_bytes, opened.failure) == (1800, None)
    for path in tmp_path.glob("*/*.part"):
        path.unlink()
    opened.add(as_records(bytes(1800)))
    uploads.balance()
    assert isinstance(opened.failure, SpillLost)
    assert uploads.problems() == {}
    opened.abandon()
    assert (uploads.buffered_bytes, uploads.spilled_bytes) == (0, 0)
    uploads.close()


def test_the_least_active_are_spilled_first(tmp_path: Path) -> None:
    """And no more than has to be, with some room for what comes next."""
    calls = upload_calls("nobody", endpoint="http://127.0.0.1:1")
    uploads = SlotUploads(calls, part_bytes=5 * MIB, max_bytes=1000, directory=tmp_path)
    opened = [
        uploads.open(BytesEncoder(10_000), object_id=f"{n}", bucket="nobody", key=f"{n}") for n in range(10)
    ]
    for one in (*opened, opened[0]):
        one.add(as_records(bytes(100)))
    uploads.balance()
    assert [one.memory_bytes for one in opened] == [200, 0, 0, 0, 0, *[100] * 5]
    assert (uploads.buffered_bytes, uploads.spilled_bytes) == (700, 400)
    uploads.close()
