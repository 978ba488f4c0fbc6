"""Names of Lenses' show decimals and bytes by the schema, whatever the objects are made of."""

from decimal import Decimal
from typing import Any, Final

import pytest

from tests.headrace.formats.encoding.registry import framed, registry
from tests.headrace.vendors.archive import Record
from tests.spark.sink.grouped import TAIL
from tests.support.sink_archives import NOON_MS, written

_REGISTRY: Final = registry()
_MONEY: Final = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
_FIELDS: Final = [
    {"name": "d", "type": _MONEY},
    {"name": "l", "type": {"type": "array", "items": _MONEY}},
    {"name": "b", "type": "bytes"},
]
# Only the first has columns everywhere; Connect has no schema for the last.
_PLAIN: Final = {"type": "record", "name": "Plain", "fields": _FIELDS}
_UNION: Final = {**_PLAIN, "fields": [*_FIELDS, {"name": "u", "type": ["null", "string", "long"]}]}
_TREE: Final = {**_PLAIN, "fields": [*_FIELDS, {"name": "next", "type": ["null", "Plain"]}]}
_LARGE: Final = "12345678901234567.89"


@pytest.mark.parametrize("style", ["iso", "connect"])
@pytest.mark.parametrize(
    ("form", "schema"),
    [
        *[(form, _PLAIN) for form in ("avro", "parquet", "jsonl", "json", "csv")],
        *[(form, schema) for form in ("avro", "jsonl") for schema in (_UNION, _TREE)],
    ],
)
def test_a_member_is_named_by_its_schema(form: str, schema: dict[str, Any], style: str) -> None:
    """By doubles, different decimals had one name, and one decimal had several by the format."""
    value = {
        "d": Decimal(_LARGE),
        "l": [Decimal("1.50")],
        "b": b"eu",
        **{name: None for name in ("u", "next") if any(each["name"] == name for each in schema["fields"])},
    }
    found = written(
        {
            "aws.s3.bucket.name": "bucket",
            "topics": "t",
            "output.format": form,
            "json.format": style,
            "file.compression.type": "none",
            "file.name.values": "lenses",
            "file.name.template": "{{value:d}}/{{value:l.0}}/{{value:b}}/" + TAIL,
            "file.name.unique": "assumed",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": _REGISTRY.urls[0],
        },
        [
            Record(
                topic="t",
                partition=0,
                offset=0,
                timestamp=NOON_MS,
                key=None,
                value=framed(_REGISTRY, schema, value, f"{form}-{style}"),
                headers=(),
            )
        ],
    )
    (name,) = found.objects
    assert name.startswith(f"{_LARGE}/1.50/eu/t/")
