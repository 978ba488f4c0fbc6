"""The schemas inside the objects that the real sinks wrote, and those beside the values in Kafka."""

import gzip
import io
import json
from collections.abc import Iterator
from functools import cache
from typing import Final

import pyarrow.parquet as pq

from headrace.formats.connect import ConnectSchema
from headrace.formats.connect.schema import schema_of_json
from tests.headrace.vendors.archive import Archive, archives

_AVRO: Final = b"Obj\x01"
_PARQUET: Final = b"PAR1"
_GZIP: Final = b"\x1f\x8b"
_SCHEMA: Final = b"avro.schema"
_MODEL: Final = b"parquet.avro.schema"


def _bodies(archive: Archive) -> Iterator[bytes]:
    for body in archive.objects.values():
        yield gzip.decompress(body) if body.startswith(_GZIP) else body


def _container_schema(body: bytes) -> str:
    """The schema in the head of an Avro container."""
    at = body.index(_SCHEMA) + len(_SCHEMA)
    length = shift = 0
    while True:
        octet = body[at]
        at += 1
        length |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            break
    length >>= 1
    return body[at : at + length].decode()


@cache
def avro_schemas(vendor: str) -> tuple[str, ...]:
    """Every schema of the Avro and Parquet objects of one vendor, each once."""
    found: dict[str, None] = {}
    for archive in archives():
        if archive.vendor == vendor:
            for body in _bodies(archive):
                if body.startswith(_AVRO):
                    found[_container_schema(body)] = None
                elif body.startswith(_PARQUET):
                    metadata = pq.read_schema(io.BytesIO(body)).metadata or {}
                    if _MODEL in metadata:
                        found[metadata[_MODEL].decode()] = None
    return tuple(found)


@cache
def source_schemas() -> tuple[ConnectSchema, ...]:
    """The schemas beside the values of the source topics, each once."""
    found: dict[ConnectSchema, None] = {}
    for archive in archives():
        for record in archive.records:
            if (record.value or b"").startswith(b'{"schema":{'):
                schema = schema_of_json(json.dumps(json.loads(record.value or b"")["schema"]))
                assert schema is not None
                found[schema] = None
    return tuple(found)
