"""Keys and values as converters of a registry read them: what is compressed, and ids that headers have."""

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final

import numpy as np

from headrace.formats.converters.framing import glue_inflated_bytes
from headrace.model.columns import Column, Headers, KafkaRecords, column_of
from headrace.options.schema_settings import GlueSettings, RegistrySettings
from headrace.options.sink_settings import Converters

# What compressed keys and values may come to at once, as many bytes as a slot fetches without compression.
_INFLATED_BYTES: Final = 4 * 1024 * 1024
_KEY_ID: Final = "__key_schema_id"
_VALUE_ID: Final = "__value_schema_id"


def framed(records: KafkaRecords, converters: Converters) -> tuple[Column, Column]:
    """The keys and the values, in which ids of schemas are where their converters look for them."""
    found = records.keys, records.values
    read_by = (converters.key, _KEY_ID), (converters.value, _VALUE_ID)
    wanted = {name for converter, name in read_by if isinstance(converter.registry, RegistrySettings)}
    # Headers of tracing are on each record, and those of schemas on none.
    if (
        records.headers is None
        or not wanted
        or wanted.isdisjoint(map(itemgetter(0), chain.from_iterable(records.headers)))
    ):
        return found
    keys, values = (
        _framed(column, records.headers, name) if name in wanted else column
        for column, (_, name) in zip(found, read_by, strict=True)
    )
    return keys, values


def _framed(column: Column, headers: Sequence[Headers], name: str) -> Column:
    """Data with the id of their schema before them, where Confluent's serializers put it into a header.

    A header has what would be before the data, and goes before what is there, as its deserializers have it;
    of several the last one counts. A null stays null.
    """
    ids = {
        row: value
        for row, each in enumerate(headers)
        for header, value in each
        if header == name and value is not None
    }
    if not ids:
        return column
    data = list(column.each(0, len(column)))
    return column_of([None if each is None else ids.get(row, b"") + each for row, each in enumerate(data)])


def inflated_at_once(records: KafkaRecords, converters: Converters) -> Iterator[KafkaRecords]:
    """The records in their order, as many at once as Glue's compression lets be converted together.

    Compressed keys and values of a run inflate to 4 MiB, or it is one record: compression makes a
    thousandth of what repeats itself, so that the bytes fetched say nothing of it.
    """
    sizes = np.zeros(len(records), np.int64)
    if isinstance(converters.key.registry, GlueSettings):
        sizes += glue_inflated_bytes(records.keys)
    if isinstance(converters.value.registry, GlueSettings):
        sizes += glue_inflated_bytes(records.values)
    begin = held = 0
    for row in np.flatnonzero(sizes).tolist() if int(sizes.sum()) > _INFLATED_BYTES else ():
        if begin < row and held + sizes[row] > _INFLATED_BYTES:
            yield records.take(slice(begin, row))
            begin, held = row, 0
        held += int(sizes[row])
    yield records.take(slice(begin, len(records))) if begin else records
