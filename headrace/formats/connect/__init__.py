"""Kafka Connect's data as the vendors' sinks get it: schemas of keys and values, and what is written. Pure.

A record of theirs is a value with a `ConnectSchema`, or one without (schemaless JSON: dictionaries, lists).
`ColumnSchema.connect` has the schema of a converted column, None where the converter knows none.

Schemas
    schema          ConnectSchema, Type, InvalidSchema; struct(("a", plain(Type.INT64)), name=..) makes one
    from_avro       schema_of_avro(text, version, options): as AvroConverter reads a writer's schema
    arrow_types     arrow_type(schema): the one mapping to Arrow; schema_of_arrow(kind): of inferred values
    payloads        PayloadSchema(schema).array(payloads): Arrow values of JsonConverter's payloads;
                    as_connect(array, schema): any converter's array as arrow_type(schema); with_defaults puts
                    defaults in the place of null fields, which Avro and Parquet writers of theirs do

Avro
    to_avro         avro_of_schema(schema, options): text as AvroData writes it; avro_tree: to be put into
                    another record
    java_text       avro_text(tree), record(name, namespace, fields): text of trees as Java writes it, and the
                    names that AvroData puts into schemas; its options are headrace.options.schema_settings;
                    confluent_key, CONFLUENT_HEADERS, lenses_envelope, aiven_record: the vendors' records

    Values: headrace.formats.encoding.avro_binary.encoded(with_defaults(as_connect(array, schema), schema),
    parse_schema(avro_of_schema(schema))) gives the datum of each.

Parquet
    arrow_types     parquet_schema(tree): the pyarrow schema with metadata; as_parquet(array, field): values
                    for a field of it; WRITER_OPTIONS for pyarrow's writer

JSON
    json_text       connect_json(array, schema, style): JsonConverter's text of a column with a schema
    java_text       jackson_text(value): Python values; Astral.ESCAPED where Jackson writes bytes (Aiven,
                    Confluent, Lenses), RAW where it writes text (Lenses' envelope); java_double, java_float;
                    jackson_column(texts): texts without a schema as Jackson writes them again

Headers (single values)
    values          ConnectValue(schema, value); value_json, value_text (Connect's own text of it);
                    payload_value(schema, payload), plain_value(found): as JsonConverter reads them
    parsed_text     parsed(text): as SimpleHeaderConverter reads it
    By the converter's kind: headrace.formats.converted_records.header_reader, header_json, header_text
"""

from headrace.formats.connect.schema import (
    ConnectField,
    ConnectSchema,
    Default,
    InvalidSchema,
    Type,
    plain,
    struct,
)

__all__ = ["ConnectField", "ConnectSchema", "Default", "InvalidSchema", "Type", "plain", "struct"]
