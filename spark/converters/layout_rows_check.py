"""What the rows of other sinks' layouts cannot hold of a record's headers."""

from typing import Final

from ingest.settings.sink_settings import ConverterKind, OutputField, OutputFormat, OutputSettings
from layouts.aiven.written_rows import unfit_headers
from layouts.names import LayoutName
from spark.converters.segments import RowFaults
from spark.kafka_records import KafkaRecords

_NOT_BYTES: Final = (
    "it has headers, which Aiven's csv holds as bytes: set header.converter to "
    "org.apache.kafka.connect.converters.ByteArrayConverter"
)


class LayoutRowsCheck:
    """Notes records that the layout's rows cannot hold as they are."""

    def __init__(self, output: OutputSettings) -> None:
        self._is_csv = (
            output.layout is LayoutName.AIVEN
            and output.format is OutputFormat.CSV
            and OutputField.HEADERS in output.fields
        )
        self._has_bytes = output.rows.headers is ConverterKind.BYTES

    def check(self, records: KafkaRecords, faults: RowFaults) -> None:
        """Notes them as faults of their rows."""
        if not self._is_csv or records.headers is None:
            return
        if not self._has_bytes:
            for row, headers in enumerate(records.headers):
                if headers:
                    faults.add(row, "header_unfit", _NOT_BYTES)
            return
        for row in unfit_headers(records.headers):
            faults.add(row, "null_header", "a header's value is null, which Aiven's csv cannot hold")
