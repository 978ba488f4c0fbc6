"""Objects that close by their number of records, where a schema changes within one fetch."""

import io
import json

import pyarrow.parquet as pq
import pytest

from tests.headrace.vendors.archive import Record
from tests.support.sink_archives import written

_CONFIG = {
    "connector.class": "HeadraceSink",
    "aws.s3.bucket.name": "bucket",
    "topics": "t",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
    "output.format": "parquet",
    "output.layout": "confluent",
    "file.compression.type": "none",
    "rotate.records": "3",
}


def _value(field: str) -> bytes:
    schema = {"type": "struct", "fields": [{"field": field, "type": "int64", "optional": True}]}
    return json.dumps({"schema": schema, "payload": {field: 1}}).encode()


@pytest.mark.parametrize(
    ("fields", "sizes"),
    [
        pytest.param("aabbb", [2, 3], id="the new object has all of its records"),
        pytest.param("aaabbb", [3, 3], id="both are full"),
        pytest.param("aabbbb", [2, 3, 1], id="the new object is full within the fetch"),
        pytest.param("abab", [1, 1, 1, 1], id="each record changes it"),
    ],
)
def test_a_new_schemas_object_is_not_closed_by_the_old_ones_count(fields: str, sizes: list[int]) -> None:
    """What was left of the object before says nothing of the next one."""
    records = [Record("t", 0, offset, 1000, b"k", _value(name), ()) for offset, name in enumerate(fields)]

    found = written(_CONFIG, records, stops=True)

    tables = [pq.read_table(io.BytesIO(each.body)) for _, each in sorted(found.objects.items())]
    assert [len(table) for table in tables] == sizes
    assert not found.unwritten
