"""A real data set through the whole service in each format, and compared field by field behind Kafka."""

from pathlib import Path

import pytest

from headrace.options.choices import InputFormat
from tests.support import aws, flights, kafka
from tests.support.discovery import log_lines
from tests.support.service import new_route
from tests.support.until import until_sync

# A slot's task does the same for fewer rows in tests/spark/test_task_formats.py, and quickly.
pytestmark = [pytest.mark.parts, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("input_format", list(InputFormat))
def test_the_flights_arrive_field_by_field(tmp_path: Path, input_format: InputFormat) -> None:
    """Every row once, in its order, every field with its value; of bytes the chunks are the object."""
    route = new_route(tmp_path)
    content = flights.WRITERS[input_format](flights.table())
    options = {name.replace(".", "__"): value for name, value in flights.options(input_format).items()}
    # A job that ends in the middle leaves up to 10 MiB that were read ahead, which the next one reads again.
    options["job__max__seconds"] = "300"
    service = route.service(aws.unique("flights"), input__format=input_format, **options)
    service.start(ready_seconds=300)
    try:
        aws.s3().put_object(Bucket=route.bucket, Key="flights", Body=content)
        until_sync(lambda: service.status()["objects"]["done"] == 1, seconds=120, what="the flights done")
        (line,) = log_lines(service, "object")
    finally:
        assert service.stop() == 0

    values = (record.value or b"" for record in kafka.committed(route.topic, seconds=120))
    if input_format is InputFormat.BYTES:
        assert b"".join(values) == content
    else:
        for value, row in zip(values, flights.table().to_pylist(), strict=True):
            flights.assert_same(value, flights.expected(row, input_format))
        assert line["records"] == flights.ROWS
    assert (line["outcome"], line["bytes"]) == ("done", len(content))
    # Parquet is read by ranges, and the others as a stream: about once either way.
    assert len(content) <= line["fetched_bytes"] < len(content) * 1.1
