"""Avro data one by one through fastavro: where each begins and ends, what it holds, what is wrong."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import fastavro

from spark.formats.avro_container import ContainerError
from spark.formats.avro_physical import reading_schema
from spark.formats.avro_schema import Node, is_guarded
from spark.formats.avro_skip import DatumError, datum_end

# What fastavro raises for bytes that are no datum.
_FAULTS: Final = (EOFError, IndexError, ValueError, OverflowError, TypeError, KeyError, struct.error)


@dataclass(frozen=True, slots=True)
class Datum:
    """One datum at [begin, end) of its block; `fault` says why it has no value."""

    begin: int
    end: int
    value: Any
    fault: str | None = None


class DatumReader:
    """Reads the data of blocks of one schema; make one for each object."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._guarded = is_guarded(node)
        self._schema = fastavro.parse_schema(reading_schema(node))

    def read(self, content: bytes, count: int) -> Iterator[Datum]:
        """The `count` data of a block's content, one after the other.

        A datum that can be cut out but not read is given with its fault. ContainerError where no further
        datum can be found, or where bytes are left over; DatumError (reason `too_deep` or `too_large`) where
        decoding would be unbounded.
        """
        stream = io.BytesIO(content)
        at = 0
        for _ in range(count):
            if self._guarded:
                self._end(content, at)
            try:
                value = fastavro.schemaless_reader(
                    stream, self._schema, None, return_record_name=True, return_record_name_override=True
                )
                end = stream.tell()
                datum = Datum(at, end, value)
            except _FAULTS as error:
                end = self._end(content, at)
                stream.seek(end)
                what = (
                    "a text is not UTF-8" if isinstance(error, UnicodeDecodeError) else "it does not decode"
                )
                datum = Datum(at, end, None, what)
            yield datum
            at = end
        if at != len(content):
            raise ContainerError("a block holds more bytes than data")

    def _end(self, content: bytes, at: int) -> int:
        try:
            return datum_end(content, at, self._node)
        except DatumError as error:
            if error.reason != "not_avro":
                raise
            raise ContainerError(f"a block holds no further datum: {error}") from error
