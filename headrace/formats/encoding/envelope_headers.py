"""Headers as columns, a name each: as they are in Lenses' envelope with a schema."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from headrace.formats.connect import ConnectSchema, Type, plain
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.header_values import header_reader
from headrace.model.kafka_records import Headers
from headrace.options.sink_settings import ConverterKind

HeaderSchemas = tuple[tuple[str, ConnectSchema], ...]

# Of a null that the converter gives no schema with.
_NULL: Final = plain(Type.STRING, optional=True)


@lru_cache(maxsize=4096)
def header_schemas(headers: Headers, kind: ConverterKind) -> HeaderSchemas:
    """The schema of each header, in the order of names; of those with one name the last is there."""
    read = header_reader(kind)
    found = {name: (read(value).schema or _NULL).as_optional() for name, value in headers}
    return tuple(sorted(found.items(), key=lambda each: each[0]))


def header_array(headers: Sequence[Headers], schemas: HeaderSchemas, kind: ConverterKind) -> Any:
    """The headers of records, all of these schemas, as structs.

    Raises ArrowException, OverflowError or ValueError for a value that its schema cannot hold.
    """
    read = header_reader(kind)
    rows = [dict(each) for each in headers]
    below = [
        pa.array([read(row[name]).value for row in rows], arrow_type(schema)) for name, schema in schemas
    ]
    return pa.StructArray.from_arrays(below, names=[name for name, _ in schemas])
