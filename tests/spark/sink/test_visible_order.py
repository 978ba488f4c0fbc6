"""At least once, objects are put as they close: those next to values are there before the values are."""

import threading
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.model.sink_entries import Upload
from headrace.s3.client import UploadEnded
from spark.sink.open_group import OpenObjects
from spark.sink.slot_uploads import SlotUploads
from tests.spark.sink.bytes_encoder import BytesEncoder, as_records

MIB: Final = 1024 * 1024
_SECONDS: Final = 30


class _Shape:
    """Of values with keys next to them."""

    roles = ("keys", "")


class _Calls:
    """Of S3, where a PUT of keys is answered when the test says so."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.asked, self.may_end = threading.Event(), threading.Event()
        self.happened: list[str] = []
        self._error = error

    def put(self, _bucket: str, key: str, _body: bytes, **_described: object) -> None:
        """Make it visible."""
        if key == "keys":
            self.asked.set()
            assert self.may_end.wait(_SECONDS)
            if self._error is not None:
                raise self._error
        self.happened.append(key)

    def begin(self, _bucket: str, key: str, **_described: object) -> str:
        """An upload, which is not visible before it is completed."""
        return f"upload of {key}"

    def part(self, *_arguments: object) -> str:
        """A part of it."""
        return "etag"

    def end(self) -> None:
        """Nothing is under way."""


def _opened(calls: Any, folder: Path, keys: bytes) -> tuple[SlotUploads, OpenObjects]:
    uploads = SlotUploads(calls, part_bytes=5 * MIB, max_bytes=64 * MIB, directory=folder, is_direct=True)
    made = []
    for name, content in (("keys", keys), ("values", b"row\n")):
        one = uploads.open(BytesEncoder(), object_id="id", bucket="bucket", key=name)
        one.add(as_records(content))
        made.append(one)
    return uploads, OpenObjects(_Shape(), tuple(made))  # type: ignore[arg-type]  # what is used of one


def test_values_are_put_when_their_keys_are_there(tmp_path: Path) -> None:
    """However long the keys take."""
    calls = _Calls()
    uploads, opened = _opened(calls, tmp_path, b"k1\n")
    sealed = opened.seal()
    assert calls.asked.wait(_SECONDS)
    # Other threads of the pool are idle: nothing but the order keeps the values.
    assert calls.happened == []
    calls.may_end.set()
    assert [upload.key for upload in _results(sealed)] == ["keys", "values"]
    assert calls.happened == ["keys", "values"]
    uploads.close()


def test_values_are_no_object_without_their_keys(tmp_path: Path) -> None:
    """What has failed is written again, together."""
    calls = _Calls(error=UploadEnded("it is gone"))
    uploads, opened = _opened(calls, tmp_path, b"k1\n")
    sealed = opened.seal()
    calls.may_end.set()
    with pytest.raises(UploadEnded):
        _results(sealed)
    assert calls.happened == []
    assert isinstance(opened.failure, UploadEnded)
    uploads.close()


def test_values_wait_for_keys_of_several_parts(tmp_path: Path) -> None:
    """Those appear when they are completed, and so do the values, then, in their order."""
    calls = _Calls()
    uploads, opened = _opened(calls, tmp_path, b"k" * (6 * MIB))
    found = _results(opened.seal())
    assert [upload.upload_id for upload in found] == ["upload of keys", "upload of values"]
    assert calls.happened == []
    uploads.close()


def _results(sealed: Any) -> tuple[Upload, ...]:
    """What they come to; the error of the one that has failed."""
    for _, upload in sealed._uploads:
        upload.result(_SECONDS)
    found: tuple[Upload, ...] = sealed.result()
    return found
