"""Runs of records as an object can have them: of one schema of the rows, and of values that fit it.

Connect itself checks neither the digits of a decimal, nor the length of a fixed, nor the symbols of an enum.
Records without a value, or without a key, have no place in some outputs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from headrace.conversion.encoders import new_encoder
from headrace.conversion.side_rows import new_side_encoder, side_output
from headrace.formats.avro_schema import SchemaError
from headrace.formats.connect import ConnectSchema, InvalidSchema, Type
from headrace.formats.connect.arrow_types import arrow_type
from headrace.formats.connect.java_text import DEFAULT_PRECISION, ENUM, FIXED_SIZE, UNION, is_avro_name
from headrace.formats.connect.schema import DECIMAL, decimal_precision
from headrace.formats.converted_records import (
    ColumnSchema,
    ConvertedColumn,
    ConvertedRecords,
    Form,
    InferredValues,
    RecordFault,
    header_reader,
)
from headrace.formats.converters.inferred_column import schema_of_kind, unheld_values
from headrace.formats.encoding.row_schema import (
    ColumnForm,
    HeaderSchemas,
    RowSchema,
    has_typed_envelope,
    header_schemas,
    schema_of,
)
from headrace.model.columns import Headers, Numbers
from headrace.model.text_formatting import printable
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import (
    ConverterKind,
    NullValues,
    OutputField,
    OutputFormat,
    OutputSettings,
    SideRole,
)

_TYPED: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})
_UNFIT: Final = (pa.ArrowException, ArithmeticError, TypeError, ValueError)


def may_be_unfit(output: OutputSettings, schema: RowSchema) -> bool:
    """False where every value of the schema's types has a row, which spares a look at the values."""
    if schema.headers and _may_headers_be_unfit(output.rows.headers, schema.headers):
        return True
    forms = [(output.format, schema.key), (output.format, schema.value)]
    if output.sidecars.keys is not None:
        forms.append((output.sidecars.keys.format, schema.side_key))
    return any(each is not None and _is_narrower(form, each) for form, each in forms)


def _may_headers_be_unfit(kind: ConverterKind, schemas: HeaderSchemas) -> bool:
    """False where all are of the one type that the converter has, which always holds its values."""
    only = header_reader(kind)(None).schema
    return any(schema != only for _, schema in schemas)


def _may_text_be_unfit(output: OutputSettings, run: ConvertedRecords) -> bool:
    """The same of rows that are text, of which none asks for a schema: some values have none."""
    if output.format in _TYPED or output.layout is LayoutName.HEADRACE:
        return False
    return any(
        _is_narrower(output.format, ColumnForm(each.form, each.schema)) for each in (run.key, run.value)
    )


def unfit_rows(output: OutputSettings, schema: RowSchema, records: ConvertedRecords) -> Numbers:
    """The rows, rising, that an object of this schema cannot hold: what fails alone, when it is tried."""
    return _unfit(output, schema, records, rows_of_values(output, records.value))


def rows_of_values(output: OutputSettings, values: ConvertedColumn) -> Numbers:
    """The rows that come into objects of values: without nulls, where those are objects of their own."""
    if output.sidecars.tombstone_template is not None:
        return np.flatnonzero(~values.nulls())
    return np.arange(len(values))


def is_projection_unfit(output: OutputSettings, opened: RowSchema, records: ConvertedRecords) -> bool:
    """Whether an object of the schema `opened` cannot hold all of these records of a later version."""
    forms = (opened.key, opened.value, opened.side_key)
    has_promises = any(
        each is not None and each.schema is not None and each.schema.connect is not None for each in forms
    )
    return has_promises and bool(len(unfit_rows(output, opened, records)))


def unfit_value(output: OutputSettings) -> tuple[str, str]:
    """Reason and sentence of such a record."""
    message = (
        f"output.format={output.format} cannot hold the record: a value is not what its schema says, such as "
        "a decimal of more digits than its precision, a fixed of another length, a symbol that its enum has "
        "not, or a null where none may be"
    )
    return "value_unfit", message


def _unfit(output: OutputSettings, schema: RowSchema, records: ConvertedRecords, rows: Numbers) -> Numbers:
    if not len(rows) or _is_held(output, schema, records.take(rows)):
        return np.zeros(0, np.int64)
    if len(rows) == 1:
        return rows
    middle = len(rows) // 2
    halves = (rows[:middle], rows[middle:])
    return np.concatenate([_unfit(output, schema, records, half) for half in halves])


def _is_held(output: OutputSettings, schema: RowSchema, records: ConvertedRecords) -> bool:
    encoders = [new_encoder(output, schema)]
    if schema.side_key is not None:
        beside = side_output(output, SideRole.KEYS)
        encoders.append(new_side_encoder(beside, SideRole.KEYS, schema, header=output.rows.headers))
    try:
        for encoder in encoders:
            encoder.add(records)
            encoder.finish()
    except _UNFIT:
        return False
    return True


@lru_cache(maxsize=1000)
def _is_narrower(form: OutputFormat, column_form: ColumnForm) -> bool:
    if column_form.schema is None or column_form.schema.connect is None or column_form.schema.arrow is None:
        return False
    try:
        return _narrower(form, column_form.schema.arrow, column_form.schema.connect)
    except InvalidSchema:
        return True


def _narrower(form: OutputFormat, kind: Any, schema: ConnectSchema) -> bool:
    """True where the converter's values of `kind` can be more than the rows of this schema hold."""
    match schema.type:
        case Type.STRUCT:
            return schema.name == UNION or any(
                _narrower(form, kind.field(index).type, each.schema)
                for index, each in enumerate(schema.fields)
            )
        case Type.ARRAY:
            return _narrower(form, kind.value_type, schema.item)
        case Type.MAP:
            entry = (kind.key_type, kind.item_type) if pa.types.is_map(kind) else _entry(kind)
            # Avro has a map of other keys as a list of entries, of which a key may be null.
            return (not pa.types.is_map(kind) and schema.map_parts[0].optional) or any(
                _narrower(form, each, child) for each, child in zip(entry, schema.map_parts, strict=True)
            )
        case _:
            return _narrower_scalar(form, kind, schema)


def _entry(kind: Any) -> tuple[Any, Any]:
    return kind.value_type.field(0).type, kind.value_type.field(1).type


# Parquet has columns of bytes for decimals that may have more.
_PARQUET_DIGITS: Final = 76


def _narrower_scalar(form: OutputFormat, kind: Any, schema: ConnectSchema) -> bool:
    if schema.name == DECIMAL:
        digits = decimal_precision(schema) or DEFAULT_PRECISION
        is_decimal = form is OutputFormat.PARQUET and pa.types.is_decimal(kind)
        return is_decimal and not kind.precision <= digits <= _PARQUET_DIGITS
    if form not in _TYPED and pa.types.is_dictionary(kind):
        return False
    if form in _TYPED and any(schema.parameter(name) is not None for name in (FIXED_SIZE, ENUM)):
        return True
    is_number = pa.types.is_temporal(kind) and schema.type in {Type.INT32, Type.INT64}
    return not is_number and kind != arrow_type(schema)


_Schema = TypeVar("_Schema", RowSchema, ColumnForm)
_SCHEMAS_KEPT: Final = 1000
_SCHEMA: Final = "schema_unfit"


class WritableRuns:
    """Splits runs, and notes the records that no object can take."""

    def __init__(self, output: OutputSettings, *, is_transformed: bool = False) -> None:
        """With `is_transformed` values may be other than their schema promises."""
        self._output = output
        self._is_transformed = is_transformed
        self._has_envelope = has_typed_envelope(output)
        # Rows that are values, Confluent's and Lenses' without an envelope, were asked for before.
        is_bare = output.format is OutputFormat.CSV and output.layout is LayoutName.HEADRACE
        is_typed = output.format in _TYPED and output.layout is LayoutName.AIVEN
        self._asks = self._has_envelope or is_typed or (is_bare and not output.envelope)
        keys = output.sidecars.keys
        self._keys = (
            side_output(output, SideRole.KEYS) if keys is not None and keys.format in _TYPED else None
        )
        # Parquet has no schema of more levels than readers take, in any layout.
        self._asks_levels = output.format is OutputFormat.PARQUET
        self._problems: dict[RowSchema, str | None] = {}
        self._key_problems: dict[ColumnForm, str | None] = {}

    def of(self, runs: Iterable[ConvertedRecords], faults: list[RecordFault]) -> tuple[ConvertedRecords, ...]:
        """The runs as they can be written; what cannot be is put into `faults`."""
        split = (each for run in runs for each in self._split(run)) if self._has_envelope else runs
        with_keys = (run for run in split if self._has_keys(run, faults))
        writable = (self._writable(run, faults) for run in with_keys)
        fitting = (self._fitting(run, faults) for run in writable if len(run))
        return tuple(run for run in fitting if len(run))

    def _fitting(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records of the run whose values fit their schema."""
        run = self._narrowed(run)
        by_schema = list(_of_one_schema(run))
        # Nearly all runs: taking all of one would copy what is known of each record.
        unfit = self._unfit(run) if len(by_schema) == 1 else self._unfit_of_each(run, by_schema)
        if not len(unfit):
            return run
        faults += _faults(run.records.offsets[np.sort(unfit)], *unfit_value(self._output))
        return run.take(np.setdiff1d(np.arange(len(run)), unfit))

    def _unfit_of_each(self, run: ConvertedRecords, by_schema: list[Numbers]) -> Numbers:
        return np.concatenate([rows[self._unfit(run.take(rows))] for rows in by_schema])

    def _unfit(self, run: ConvertedRecords) -> Numbers:
        output, schema = self._output, schema_of(self._output, run)
        may_be = may_be_unfit(output, schema) or _may_text_be_unfit(output, run)
        if not (self._is_transformed or may_be):
            return np.zeros(0, np.int64)
        return unfit_rows(output, schema, run)

    def _has_keys(self, run: ConvertedRecords, faults: list[RecordFault]) -> bool:
        """Whether there are objects of keys of the run's schema; without any its records are faults."""
        if self._keys is None or run.key.schema is None:
            return True
        form = ColumnForm(run.key.form, run.key.schema)
        problem = _remembered(self._key_problems, form, partial(_key_problem, self._keys))
        if problem is None:
            return True
        message = (
            f"sidecars.keys.format={self._keys.format} cannot hold the keys of topic {run.records.topic}: "
            f"{problem}"
        )
        faults += _faults(run.records.offsets, _SCHEMA, message)
        return False

    def _writable(self, run: ConvertedRecords, faults: list[RecordFault]) -> ConvertedRecords:
        """The records of the run whose schema rows can have."""
        if not (self._asks or self._asks_levels):
            return run
        schema, values = schema_of(self._output, run), run.value
        if schema.value is not None and isinstance(values, InferredValues):
            column_form = schema.value

            def problem_of(kind: Any) -> str | None:
                return self._problem(replace(schema, value=replace(column_form, schema=schema_of_kind(kind))))

            found = unheld_values(values, problem_of, may_hide=self._asks)
        else:
            problem = self._problem(schema)
            rows = rows_of_values(self._output, values).tolist()
            found = [] if problem is None else [(row, problem) for row in rows]
        form, topic = self._output.format, run.records.topic
        for row, problem in found:
            message = f"output.format={form} cannot hold records of topic {topic}: {problem}"
            faults += _faults(run.records.offsets[row : row + 1], _SCHEMA, message)
        return run.take(np.setdiff1d(np.arange(len(run)), [row for row, _ in found])) if found else run

    def _narrowed(self, run: ConvertedRecords) -> ConvertedRecords:
        """The run, its values of no wider kind than they have, where no row can have the wider one.

        That was a refused record's, here or in another partition, and no object of these is of it.
        """
        values = run.value
        if self._output.format not in _TYPED or not isinstance(values, InferredValues):
            return run
        if values.upper is None or self._problem(schema_of(self._output, run)) is None:
            return run
        return replace(run, value=values.alone())

    def _problem(self, schema: RowSchema) -> str | None:
        """Why there are no rows of this schema; None where there are."""
        return _remembered(self._problems, schema, partial(_problem, self._output))

    def _split(self, run: ConvertedRecords) -> Iterator[ConvertedRecords]:
        """The run in parts that have the same fields: which depend on nulls, and on names of headers."""
        fields, output = np.zeros(len(run), np.int64), self._output
        for field, column in ((OutputField.KEY, run.key), (OutputField.VALUE, run.value)):
            fields = 2 * fields + (_without_field(column) if field in output.fields else 0)
        if OutputField.HEADERS in output.fields and run.records.headers is not None:
            shapes = _shapes(run.records.headers, output)
            fields = fields * (len(run) + 1) + shapes
        ends = [*(np.flatnonzero(np.diff(fields)) + 1).tolist(), len(run)]
        first = 0
        for end in ends:
            yield run if end - first == len(run) else run.slice(first, end)
            first = end


def _faults(offsets: Numbers, reason: str, message: str) -> list[RecordFault]:
    return [RecordFault(offset=offset, reason=reason, message=message) for offset in offsets.tolist()]


def _of_one_schema(run: ConvertedRecords) -> Iterator[Numbers]:
    """The rows of the run, by the kinds of their values where no schema is known for all of them."""
    if not isinstance(run.value, InferredValues) or run.value.upper is not None:
        yield np.arange(len(run))
        return
    rows: dict[int, list[int]] = {}
    for row, kind in enumerate(run.value.kinds()):
        rows.setdefault(id(kind), []).append(row)
    for same in rows.values():
        yield np.array(same, np.int64)


def _problem(output: OutputSettings, schema: RowSchema) -> str | None:
    for name, _ in schema.headers:
        if not is_avro_name(name):
            return (
                f"headers are columns there, and the header's name {printable(name, limit=100)} is invalid "
                "in Avro, which allows letters, digits and underscores only; rename or drop the header, or "
                "set output.format=jsonl"
            )
    try:
        new_encoder(output, schema)
    except (InvalidSchema, SchemaError) as error:
        return str(error)
    return None


def _key_problem(keys: OutputSettings, form: ColumnForm) -> str | None:
    try:
        new_side_encoder(keys, SideRole.KEYS, RowSchema(side_key=form), header=keys.rows.headers)
    except (InvalidSchema, SchemaError) as error:
        return str(error)
    return None


def _remembered(
    known: dict[_Schema, str | None], schema: _Schema, find: Callable[[_Schema], str | None]
) -> str | None:
    """What is known of the schema, found where it is new."""
    if schema not in known:
        if len(known) >= _SCHEMAS_KEPT:
            known.clear()
        known[schema] = find(schema)
    return known[schema]


def _without_field(column: ConvertedColumn) -> Numbers:
    """1 for each null that has no schema."""
    return column.nulls().astype(np.int64) * (column.form is Form.TYPED)


def _shapes(headers: Sequence[Headers], output: OutputSettings) -> Numbers:
    """A number for each record, equal for equal schemas of headers."""
    known: dict[HeaderSchemas, int] = {}
    kind = output.rows.headers
    return np.array([known.setdefault(header_schemas(each, kind), len(known)) for each in headers], np.int64)


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
