"""A real data set in each format: the 336,776 flights that left New York in 2013."""

import pytest

from headrace.formats import DECODERS
from headrace.options.choices import CsvType, InputFormat
from headrace.options.row_settings import CsvSettings
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource
from tests.support import flights

pytestmark = pytest.mark.long


@pytest.mark.parametrize("input_format", [each for each in InputFormat if each is not InputFormat.BYTES])
def test_every_field_of_every_row(input_format: InputFormat) -> None:
    """The JSON of each row is the row."""
    source = MemorySource(flights.WRITERS[input_format](flights.table()))
    rows = iter(flights.table().to_pylist())
    count = 0
    types = tuple(
        (name, CsvType(kind)) for name, kind in (pair.split(":") for pair in flights.csv_types().split(","))
    )
    options = decode_options(input_format, csv=CsvSettings(types=types))
    for batch in DECODERS[input_format](source, None, options=options):
        assert not batch.bad
        for index in range(len(batch)):
            flights.assert_same(batch.values.get(index), flights.expected(next(rows), input_format))
            count += 1
    assert count == flights.ROWS


def test_as_bytes() -> None:
    """The chunks put together are the object."""
    source = MemorySource(flights.parquet(flights.table()))
    batches = DECODERS[InputFormat.BYTES](source, None, options=decode_options(InputFormat.BYTES))

    assert (
        b"".join(batch.values.get(index) or b"" for batch in batches for index in range(len(batch)))
        == source.content
    )
