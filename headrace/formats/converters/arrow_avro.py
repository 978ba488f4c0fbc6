"""The Avro schema of values whose schema is known as an Arrow type."""

import json
from functools import lru_cache
from typing import Any

import pyarrow as pa

from headrace.formats.parquet_avro import AvroRows
from headrace.options.choices import JsonFormat


@lru_cache(maxsize=256)
def avro_schema(kind: Any) -> str:
    """The Avro schema as JSON text; names that Avro does not allow are changed, places stay."""
    row = json.loads(AvroRows(pa.schema([pa.field("value", kind)]), JsonFormat.ISO).schema)
    shape = row["fields"][0]["type"]
    return json.dumps(shape if shape == "null" else shape[1], separators=(",", ":"))
