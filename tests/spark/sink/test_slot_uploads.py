"""Open objects of a slot: what goes in comes out of the bucket, whatever is spilled, slow or refused."""

import random
from pathlib import Path

import pytest

from ingest.model.sink_entries import SealedObject, Upload
from spark.s3.completion import CompletionState
from spark.sink.slot_uploads import SlotUploads
from tests.spark.sink.bytes_encoder import BytesEncoder
from tests.spark.sink.upload_settings import upload_calls
from tests.support import aws

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
            opened[name].add(data[begin : begin + MIB])
            uploads.balance()
    assert (uploads.spilled_bytes > 0) == (max_bytes == 1)
    sealed = {name: one.seal(key=name if is_late else None) for name, one in opened.items()}
    found = {name: future.result(30) for name, future in sealed.items()}
    assert {name: len(upload.parts) for name, upload in found.items()} == {"large": 3, "small": 1}
    assert uploads.buffered_bytes == uploads.spilled_bytes == uploads.open_objects == 0
    assert aws.s3().list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    for name, upload in found.items():
        completion = uploads.complete(sealed_object(bucket, f"id-{name}", upload)).result(30)
        assert completion.state is CompletionState.COMPLETED
        answer = aws.s3().get_object(Bucket=bucket, Key=name)
        assert answer["Body"].read() == content[name]
        assert answer["Metadata"] == {"headrace-object": f"id-{name}"}
    uploads.close()
    assert list(tmp_path.iterdir()) == []
