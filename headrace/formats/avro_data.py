"""Avro data one by one through fastavro: where each begins and ends, what it holds, what is wrong."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import fastavro

from headrace.formats.avro_container import ContainerError
from headrace.formats.avro_cost import COST_BYTES, cost_a_byte, fixed_cost
from headrace.formats.avro_physical import reading_schema
from headrace.formats.avro_schema import Node, is_guarded
from headrace.formats.avro_skip import Budget, DatumError, datum_end

# What fastavro raises for bytes that are no datum.
_FAULTS: Final = (EOFError, IndexError, ValueError, OverflowError, TypeError, KeyError, struct.error)


@dataclass(frozen=True, slots=True)
class Datum:
    """One datum at [begin, end) of its block, and about what it takes; `fault` says why it has no value."""

    begin: int
    end: int
    value: Any
    fault: str | None = None
    cost: int = 0


class DatumReader:
    """Reads the data of blocks of one schema; make one for each object.

    `limit` is what a datum may take once it is decoded. With `is_strict` each datum is walked before it is
    read: fastavro takes a union's branch -1 for the last one.
    """

    def __init__(self, node: Node, *, limit: int, is_strict: bool = False) -> None:
        self._node = node
        self._is_walked = is_strict or is_guarded(node)
        self._limit = limit
        self._fixed_cost = fixed_cost(node)
        self._cost_a_byte = cost_a_byte(node)
        # As many bytes as cannot become more than a batch may take: what ends within them needs no walk.
        self._window = max(0, COST_BYTES - self._fixed_cost) // self._cost_a_byte
        self._schema = fastavro.parse_schema(reading_schema(node))

    def read(self, content: bytes, count: int) -> Iterator[Datum]:
        """The `count` data of a block's content, one after the other.

        A datum that can be cut out but not read is given with its fault. ContainerError where no further
        datum can be found, or where bytes are left over; DatumError (reason `too_deep`, `too_large` or
        `unit_too_large`) where decoding would be unbounded.
        """
        at = 0
        for datum in self._walked(content, count) if self._is_walked else self._windowed(content, count):
            yield datum
            at = datum.end
        if at != len(content):
            raise ContainerError("a block holds more bytes than data")

    def _walked(self, content: bytes, count: int) -> Iterator[Datum]:
        stream = io.BytesIO(content)
        at = 0
        for _ in range(count):
            end, cost = self._walk(content, at)
            stream.seek(at)
            yield self._datum(stream, at, end, cost)
            at = end

    def _windowed(self, content: bytes, count: int) -> Iterator[Datum]:
        """The reader sees a part of the content; what does not end within it is walked first."""
        stream, base, behind = io.BytesIO(), 0, 0
        at = 0
        for _ in range(count):
            if behind < len(content) and behind - at <= self._window // 2:
                base, behind = at, min(at + self._window, len(content))
                stream = io.BytesIO(content[base:behind])
            stream.seek(at - base)
            try:
                value = self._value(stream)
                end = base + stream.tell()
            except _FAULTS:
                end = behind
            else:
                if end < behind or behind == len(content):
                    yield Datum(at, end, value, cost=self._fixed_cost + (end - at) * self._cost_a_byte)
                    at = end
                    continue
            end, cost = self._walk(content, at)
            yield self._datum(io.BytesIO(content[at:end]), at, end, cost)
            at = end

    def _value(self, stream: io.BytesIO) -> Any:
        return fastavro.schemaless_reader(
            stream, self._schema, None, return_record_name=True, return_record_name_override=True
        )

    def _datum(self, stream: io.BytesIO, at: int, end: int, cost: int) -> Datum:
        try:
            return Datum(at, end, self._value(stream), cost=cost)
        except _FAULTS as error:
            is_text = isinstance(error, UnicodeDecodeError)
            return Datum(at, end, None, "a text is not UTF-8" if is_text else "it does not decode", cost)

    def _walk(self, content: bytes, at: int) -> tuple[int, int]:
        """Where the datum ends, and what it takes once it is decoded."""
        budget = Budget(self._limit)
        try:
            end = datum_end(content, at, self._node, budget=budget)
        except DatumError as error:
            if error.reason != "not_avro":
                raise
            raise ContainerError(f"a block holds no further datum: {error}") from error
        return end, budget.spent + end - at
