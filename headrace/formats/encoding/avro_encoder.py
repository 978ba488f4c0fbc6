"""Objects in Avro: rows from columns of encoded fields. Data that were Avro in Kafka are copied."""

import json
from typing import Any, Final

from headrace.formats.arrow import arrow_binary
from headrace.formats.avro_schema import PRIMITIVES, Node, parse_schema
from headrace.formats.converted_records import ConvertedColumn, ConvertedRecords, Form
from headrace.formats.encoding.avro_binary import AvroDataEncoder, encoded, with_nulls
from headrace.formats.encoding.encoder import Pieces, gathered, joined
from headrace.formats.encoding.parquet_encoder import array_of_form, field_arrays
from headrace.formats.encoding.row_schema import ColumnForm, RowSchema, schema_of
from headrace.formats.records.registry import varint
from headrace.options.sink_settings import OutputField, OutputSettings

# -- The Avro schema of an object's rows, with the schemas of keys and values in it --------------------------

Shape = Any

_NAMESPACE: Final = "headrace"
_FORMS: Final = {Form.BYTES: "bytes", Form.TEXT: "string", Form.JSON: "string"}
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


def shape_of_form(column_form: ColumnForm) -> Shape:
    """The schema of keys or values."""
    return _FORMS[column_form.form] if column_form.schema is None else json.loads(column_form.schema.avro)


def nullable(shape: Shape) -> Shape:
    """The same or null. The branches of a union keep their places, so its data stay as they are."""
    if shape == "null":
        return shape
    if isinstance(shape, list):
        return shape if "null" in shape else [*shape, "null"]
    return ["null", shape]


def row_shape(output: OutputSettings, schema: RowSchema) -> Shape:
    """The schema of a row."""
    if not output.envelope:
        return _bare(output.fields[0], schema)
    space = _space(output, schema)
    fields = [
        field for each in OutputField if each in output.fields for field in _fields(each, schema, space)
    ]
    return {"type": "record", "name": "Record", "namespace": space, "fields": fields}


def _space(output: OutputSettings, schema: RowSchema) -> str:
    """The namespace of the envelope's types: one in which keys and values have none that is called so."""
    own = [_key_shape(schema)] if OutputField.KEY in output.fields else []
    own += [_value_shape(schema)] if OutputField.VALUE in output.fields else []
    space = _NAMESPACE
    while any(_names(each, space) & {f"{space}.Record", f"{space}.Header"} for each in own):
        space += ".row"
    return space


def _bare(field: OutputField, schema: RowSchema) -> Shape:
    column_form = {OutputField.KEY: schema.key, OutputField.VALUE: schema.value}.get(field)
    if column_form is None:
        return _fields(field, schema, _NAMESPACE)[0]["type"]
    shape = shape_of_form(column_form)
    return shape if is_record(shape) else nullable(shape)


def is_record(shape: Shape) -> bool:
    """True for a schema of records."""
    return isinstance(shape, dict) and shape.get("type") in ("record", "error")


def _fields(field: OutputField, schema: RowSchema, space: str) -> list[dict[str, Shape]]:
    match field:
        case OutputField.TIMESTAMP:
            return [_field("timestamp", ["null", "long"]), _field("timestamp_type", ["null", "string"])]
        case OutputField.HEADERS:
            header = {
                "type": "record",
                "name": "Header",
                "namespace": space,
                "fields": [_field("key", "string"), _field("value", ["null", "bytes"])],
            }
            return [_field("headers", {"type": "array", "items": header})]
        case OutputField.KEY:
            return [_field("key", nullable(_key_shape(schema)))]
        case OutputField.VALUE:
            return [_field("value", nullable(_value_shape(schema)))]
        case _:
            kinds = {OutputField.TOPIC: "string", OutputField.PARTITION: "int", OutputField.OFFSET: "long"}
            return [_field(field, kinds[field])]


def _field(name: str, shape: Shape) -> dict[str, Shape]:
    return {"name": str(name), "type": shape}


def _key_shape(schema: RowSchema) -> Shape:
    """The schema of keys, whose types have other names where values have types of the same ones."""
    assert schema.key is not None, "the schema is that of an object with keys"
    shape = shape_of_form(schema.key)
    if schema.value is None:
        return _spaced(shape)
    clashes = _names(shape, "") & _names(shape_of_form(schema.value), "")
    return _renamed(shape, "") if clashes else _spaced(shape)


def _value_shape(schema: RowSchema) -> Shape:
    assert schema.value is not None, "the schema is that of an object with values"
    return _spaced(shape_of_form(schema.value))


def _spaced(shape: Shape) -> Shape:
    """The schema, whose types without a namespace have none in the envelope either: they keep their names.

    Nothing within a namespace can name a type that has none; a schema that would have to stays as it is.
    """
    return shape if _refers(shape) else _without_space(shape)


def _refers(shape: Shape) -> bool:
    """Whether a type without a namespace is named outside of all types that have names."""
    if isinstance(shape, list):
        return any(map(_refers, shape))
    if isinstance(shape, str):
        return shape not in PRIMITIVES and "." not in shape
    if shape["type"] in _NAMED:
        return False
    below = (shape[each] for each in ("type", "items", "values") if each in shape)
    return any(_refers(each) for each in below if each not in ("array", "map"))


def _without_space(shape: Shape) -> Shape:
    if isinstance(shape, list):
        return [_without_space(each) for each in shape]
    if isinstance(shape, str):
        return shape
    if shape["type"] in _NAMED:
        is_named = "." in shape["name"] or shape.get("namespace") is not None
        return shape if is_named else {**shape, "namespace": ""}
    below = {each: _without_space(shape[each]) for each in ("type", "items", "values") if each in shape}
    return {**shape, **below}


def _names(shape: Shape, namespace: str) -> set[str]:
    """The full names of all types that are defined in a schema."""
    if isinstance(shape, list):
        return set().union(*(_names(each, namespace) for each in shape))
    if not isinstance(shape, dict):
        return set()
    if shape["type"] not in _NAMED:
        below = [shape[member] for member in ("type", "items", "values") if member in shape]
        return set().union(*(_names(each, namespace) for each in below))
    full, space = _full_name(shape, namespace)
    return {full}.union(*(_names(each["type"], space) for each in shape.get("fields", ())))


def _full_name(shape: dict[str, Any], namespace: str) -> tuple[str, str]:
    name = shape["name"]
    space = name.rpartition(".")[0] if "." in name else shape.get("namespace", namespace) or ""
    return (name if "." in name or not space else f"{space}.{name}"), space


def _renamed(shape: Shape, namespace: str) -> Shape:
    """The schema with its types in a namespace of their own."""
    if isinstance(shape, list):
        return [_renamed(each, namespace) for each in shape]
    if isinstance(shape, str):
        if shape in PRIMITIVES:
            return shape
        return f"{_NAMESPACE}.key." + (shape if "." in shape or not namespace else f"{namespace}.{shape}")
    if shape["type"] not in _NAMED:
        below = {each: _renamed(shape[each], namespace) for each in ("items", "values") if each in shape}
        inner = shape["type"] if shape["type"] in ("array", "map") else _renamed(shape["type"], namespace)
        return {**shape, **below, "type": inner}
    full, space = _full_name(shape, namespace)
    renamed = {**shape, "name": f"{_NAMESPACE}.key.{full}"}
    renamed.pop("namespace", None)
    if "fields" in shape:
        renamed["fields"] = [{**each, "type": _renamed(each["type"], space)} for each in shape["fields"]]
    return renamed


# -- Objects in Avro: rows from columns of encoded fields. Data that were Avro in Kafka are copied -----------


class AvroEncoder(AvroDataEncoder):
    """One object container file."""

    def __init__(self, output: OutputSettings, schema: RowSchema, *, takes_texts: bool = False) -> None:
        """With `takes_texts` rows of the object's own schema may be encoded already."""
        shape = row_shape(output, schema)
        node = parse_schema(json.dumps(shape))
        super().__init__(output, shape, self.rows)
        self._output = output
        self._schema = schema
        self._takes_texts = takes_texts
        names = [name for name, _ in node.fields] if output.envelope else [output.fields[0]]
        nodes = [child for _, child in node.fields] if output.envelope else [node]
        self._nodes: dict[str, Node] = dict(zip(names, nodes, strict=True))

    def add(self, records: ConvertedRecords) -> None:
        """Appends the data of records."""
        texts = records.texts if self._takes_texts else None
        if texts is not None and schema_of(self._output, records) == self._schema:
            self._blocks.append(gathered(texts), len(records))
        else:
            super().add(records)

    def rows(self, records: ConvertedRecords) -> Any:
        """The datum of each record, as a binary array."""
        pieces = [
            piece
            for name in OutputField
            if name in self._output.fields
            for piece in self._pieces(name, records)
        ]
        return joined(pieces, len(records))

    def _pieces(self, field: OutputField, records: ConvertedRecords) -> Pieces:
        match field:
            case OutputField.KEY:
                return [self._column(records.key, self._schema.key, self._nodes["key"])]
            case OutputField.VALUE:
                return [self._column(records.value, self._schema.value, self._nodes["value"])]
            case _:
                return self._plain(field, records)

    def _plain(self, field: OutputField, records: ConvertedRecords) -> Pieces:
        arrays = field_arrays(field, records, self._schema)
        names = ["timestamp", "timestamp_type"] if field is OutputField.TIMESTAMP else [field]
        return [
            encoded(array, self._nodes[name])
            for name, array in zip(names, arrays, strict=True)
            if name in self._nodes
        ]

    def _column(self, column: ConvertedColumn, column_form: ColumnForm | None, node: Node) -> Any:
        assert column_form is not None, "the schema is that of an object with this part"
        data = column.data() if column.schema == column_form.schema else None
        if data is None:
            return encoded(array_of_form(column, column_form), node)
        array = arrow_binary(data)
        if node.kind != "union":
            return array
        # A union of the record's own has its branch in the datum already.
        null = [branch.kind for branch in node.branches].index("null")
        prefix = b"" if _is_union(column_form) else varint(1 - null)
        filled = array.drop_null()
        return with_nulls(array, joined([prefix, filled], len(filled)), varint(null))


def _is_union(column_form: ColumnForm) -> bool:
    return column_form.schema is not None and isinstance(json.loads(column_form.schema.avro), list)
