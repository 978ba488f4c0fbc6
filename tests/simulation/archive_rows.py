"""What is in an archive, read by other libraries than those that wrote it: rows by their places."""

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NamedTuple

import cramjam
import fastavro
import pyarrow.parquet as pq
from fastavro.io.binary_decoder import BinaryDecoder

from tests.simulation.s3 import Bucket

# It publishes no types.
_DECODER: Final[Any] = BinaryDecoder


class Row(NamedTuple):
    """One row of an object."""

    key: str
    """Of the object."""
    topic: str
    partition: int
    offset: int
    fields: dict[str, Any]


def rows_of(bucket: Bucket, name: str) -> list[Row]:
    """All rows of an archive whose rows have topic, partition and offset."""
    return [
        row
        for key, stored in sorted(bucket.objects[name].items())
        if stored.body != FOREIGN
        for row in rows_in(key, stored.body)
    ]


def rows_in(key: str, body: bytes) -> list[Row]:
    """The rows of one object, which have topic, partition and offset."""
    return [
        Row(key, str(fields["topic"]), int(fields["partition"]), int(fields["offset"]), fields)
        for fields in decoded(body)
    ]


def plain(body: bytes) -> bytes:
    """The bytes without the compression that their beginning shows."""
    begins = (unpack for magic, unpack in _UNPACK.items() if body.startswith(magic))
    unpack = next(begins, None)
    return body if unpack is None else bytes(unpack(body))


FOREIGN: Final = b"foreign"
"""What another program puts into buckets, of which no row is any sink's."""
_FORMS: Final = {b"PAR1": "parquet", b"Obj\x01": "avro", b"[": "json", b"{": "jsonl"}
_UNPACK: Final[dict[bytes, Callable[[bytes], Any]]] = {
    b"\x1f\x8b": gzip.decompress,
    b"\x28\xb5\x2f\xfd": cramjam.zstd.decompress,
    b"BZh": bz2.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
    b"\x04\x22\x4d\x18": cramjam.lz4.decompress,
    b"\xff\x06\x00\x00sNaPpY": cramjam.snappy.decompress,
}


def decoded(body: bytes) -> list[dict[str, Any]]:
    """The rows of an object, by what its first bytes show; CSV is what nothing else is."""
    data = plain(body)
    form = next((form for begin, form in _FORMS.items() if data.startswith(begin)), "csv")
    return rows_of_form(form, data)


def rows_of_form(form: str, data: bytes) -> list[Any]:
    """The rows of an object of this format."""
    match form:
        case "jsonl":
            return [_json(line) for line in data.decode().split("\n") if line]
        case "json":
            return list(_json(data.decode()))
        case "csv":
            return [dict(row) for row in csv.DictReader(io.StringIO(data.decode(), newline=""))]
        case "avro":
            fastavro._read.BLOCK_READERS["zstandard"] = _zstandard  # it knows another library for it only
            return list(fastavro.reader(io.BytesIO(data)))
        case "parquet":
            return list(pq.read_table(io.BytesIO(data)).to_pylist())
        case _:
            raise AssertionError(f"{form} is no format")


def _zstandard(source: Any) -> Any:
    return io.BytesIO(bytes(cramjam.zstd.decompress(_DECODER(source).read_bytes())))


def _json(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)
