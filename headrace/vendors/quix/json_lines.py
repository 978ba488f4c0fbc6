"""Records as Quix's lines of JSON: time, key and value."""

from headrace.formats.converted_records import ConvertedRecords
from headrace.formats.encoding.row_texts import decimal_texts, joined, text_of
from headrace.vendors.aiven.json_lines import value_pieces
from headrace.vendors.quix.rows import LINE


class QuixJsonRows:
    """Writes the rows of one object, each with a line feed after it."""

    def text(self, records: ConvertedRecords) -> bytes:
        """The rows of these records, one after the other. A null key stays null."""
        before_time, before_key, before_value, end = LINE
        pieces = [
            before_time,
            decimal_texts(records.records.timestamps_ms),
            before_key,
            *value_pieces(records.key),
            before_value,
            *value_pieces(records.value),
            end,
        ]
        return text_of(joined(pieces, len(records)))
