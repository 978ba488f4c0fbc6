"""One field of each record as it is, with a separator behind it: `output.format` bytes and text."""

from typing import Any

from headrace.formats.arrow import arrow_binary
from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.json_rows import bare_pieces
from headrace.formats.encoding.row_texts import joined, text_of
from headrace.options.sink_settings import OutputField, OutputSettings


class SeparatedRows:
    """Writes keys or values byte for byte, other fields as their text."""

    def __init__(self, output: OutputSettings) -> None:
        self._field = output.fields[0]
        self._separator = output.separator

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other."""
        return text_of(self.rows(records))

    def rows(self, records: ConvertedRecords) -> Any:
        """A binary array of the rows."""
        match self._field:
            case OutputField.KEY:
                pieces = [arrow_binary(records.key.texts())]
            case OutputField.VALUE:
                pieces = [arrow_binary(records.value.texts())]
            case OutputField.TOPIC:
                pieces = [records.records.topic.encode()]
            case field:
                pieces = bare_pieces(records, field)
        return joined([*pieces, self._separator], len(records))
