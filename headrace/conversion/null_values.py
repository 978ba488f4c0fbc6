"""Records without a value, or without a key: which have no place in what a sink writes, and why."""

from typing import Final

from headrace.formats.converted_records import ColumnSchema, ConvertedColumn, Form, InferredValues
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import NullValues, OutputField, OutputFormat, OutputSettings

_WITHOUT_NULLS: Final = frozenset({OutputFormat.BYTES, OutputFormat.TEXT, OutputFormat.CSV})
_ROWS_OF_RECORDS: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})
BY_VALUE: Final = frozenset({LayoutName.CONFLUENT, LayoutName.LENSES})
"""The layouts in which a null is what the converter makes one of, and schemas are Connect's."""

FAILING_NULL: Final = ("null_value", "the value is null, and behavior.on.null.values is fail")
"""Reason and sentence of a record whose null value is not wanted."""
REPORTED_NULL: Final = ("null_value", "the value is null, and is left out (behavior.on.null.values)")
"""Those of one that is left out as by `ignore`, and is in no object, whatever read it."""
IGNORED: Final = frozenset({NullValues.IGNORE, NullValues.REPORT})
"""Nulls are in no object, and are not wrong."""
FAULTS_OF_NULLS: Final = {NullValues.FAIL: FAILING_NULL, NullValues.REPORT: REPORTED_NULL}
"""Those of nulls, by what becomes of them."""
NULL_KEY: Final = ("null_key", "the key is null, and sidecars=keys has a row for each")
"""Reason and sentence of a record without a key, where there are objects of keys."""


def null_problem(
    output: OutputSettings, field: OutputField, column: ConvertedColumn
) -> tuple[str, str] | None:
    """Reason and sentence of a null that has no place in the output; None where a null has one."""
    wanted = output.format
    if field in output.fields and output.layout is LayoutName.AIVEN and wanted in _ROWS_OF_RECORDS:
        # Bytes and texts have a schema that takes nulls.
        plain = column.form in {Form.BYTES, Form.TEXT}
        return (
            None
            if plain
            else ("null_value", f"the {field} is null, for which Aiven's {wanted} has no schema")
        )
    if output.envelope or output.fields != (field,) or not _refuses_nulls(output, field, column):
        return None
    return "null_value", f"the {field} is null, which output.format={wanted} without an envelope cannot hold"


def _refuses_nulls(output: OutputSettings, field: OutputField, column: ConvertedColumn) -> bool:
    """Whether the bare rows of this part have none for a null."""
    if field is OutputField.VALUE and output.sidecars.tombstone_template is not None:
        # They are no rows of it.
        return False
    if output.layout is LayoutName.LENSES:
        # What is to be ignored is found by its value afterwards.
        return output.null_values not in IGNORED
    if output.format in _ROWS_OF_RECORDS:
        if field is OutputField.VALUE and (column.form is Form.JSON or isinstance(column, InferredValues)):
            # Whatever its neighbours are: rows of values are records.
            return True
        return column.schema is not None and (column.schema.is_record or _is_required(output, column.schema))
    # A null is an empty line of Aiven's csv.
    return output.layout is not LayoutName.AIVEN and output.format in _WITHOUT_NULLS


def _is_required(output: OutputSettings, schema: ColumnSchema) -> bool:
    """Whether an object of this schema of Kafka Connect's cannot have nulls; what is inferred cannot."""
    return output.layout in BY_VALUE and (schema.connect is None or not schema.connect.optional)
