"""Columns of what a record's value is, of JSON Lines and of Parquet alike."""

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.frames.source import HeadraceSource

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.parts

_ROWS = [{"id": n, "payload": {"a": n, "b": "x" * n}} for n in range(3)]
_ENVELOPES = [{"key": f"k{n}", "value": {"a": n, "b": "x" * n}, "offset": n} for n in range(3)]


def _content(form: str, rows: list[dict[str, Any]]) -> bytes:
    if form == "jsonl":
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    written = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), written)
    return written.getvalue()


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("input_format", ["auto", None])
@pytest.mark.parametrize(
    ("rows", "options"),
    [(_ROWS, {"value.source": "field:payload"}), (_ENVELOPES, {"input.envelope": "aiven"})],
)
def test_the_columns_are_those_of_the_value(
    s3: "S3Client",
    s3_endpoint: str,
    bucket: str,
    form: str,
    input_format: str | None,
    rows: list[dict[str, Any]],
    options: dict[str, str],
) -> None:
    """Those of Parquet's own rows would be another table, or nulls where a schema is given."""
    s3.put_object(Bucket=bucket, Key=f"in/a.{form}", Body=_content(form, rows))
    source = HeadraceSource(
        {
            "path": f"s3://{bucket}/in/",
            "rows": "columns",
            "input.format": input_format or form,
            "aws.s3.endpoint": s3_endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            **options,
        }
    )
    reader = source.reader(source.schema())
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]

    assert [{name: row[name] for name in ("a", "b")} for row in found] == [
        {"a": n, "b": "x" * n} for n in range(3)
    ]
