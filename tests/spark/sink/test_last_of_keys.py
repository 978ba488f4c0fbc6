"""Names of keys alone where a partition stops: the last record of each key before that is there."""

from typing import Final

import pytest

from tests.headrace.vendors.archive import Record
from tests.spark.sink.grouped import JSON
from tests.support.sink_archives import written

_BASE: Final = {"aws.s3.bucket.name": "bucket", "topics": "t", "file.compression.type": "none"}
_GOOD: Final = b'{"a":1}'
_BAD: Final = b"not json"


def _record(offset: int, key: bytes, value: bytes) -> Record:
    return Record(topic="t", partition=0, offset=offset, timestamp=0, key=key, value=value, headers=())


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize(
    ("given", "tolerance", "stop", "offsets"),
    [
        ([(b"k", _GOOD), (b"x", _BAD), (b"k", _GOOD)], "none", 1, {"t/k": 0}),
        ([(b"k", _GOOD), (b"k", _GOOD), (b"k", _BAD), (b"k", _GOOD)], "none", 2, {"t/k": 1}),
        ([(b"j", _GOOD), (b"k", _GOOD), (b"j", _GOOD), (b"x", _BAD)], "none", 3, {"t/j": 2, "t/k": 1}),
        ([(b"x", _BAD), (b"k", _GOOD)], "none", 0, {}),
        ([(b"k", _GOOD), (b"x", _BAD), (b"k", _GOOD)], "all", None, {"t/k": 2}),
    ],
)
def test_of_each_key_the_last_record_before_a_stop_is_there(
    given: list[tuple[bytes, bytes]], tolerance: str, stop: int | None, offsets: dict[str, int], batch: int
) -> None:
    """However they were fetched: what is committed is in an object, or a later one of its key is."""
    config = {**_BASE, **JSON, "file.name.template": "{{topic}}/{{key}}", "errors.tolerance": tolerance}
    records = [_record(offset, key, value) for offset, (key, value) in enumerate(given)]

    found = written(config, records, batch=batch)

    assert [each.offset for each in found.stops.values()] == ([] if stop is None else [stop])
    assert found.committed["t", 0] == (len(given) if stop is None else stop)
    assert {key: _offset(each.body) for key, each in found.objects.items()} == offsets


def _offset(body: bytes) -> int:
    (line,) = body.splitlines()
    return int(line.split(b'"offset":')[1].split(b",")[0])
