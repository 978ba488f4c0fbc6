"""Keys, values and headers from the bytes in Kafka to typed columns, as Kafka Connect's converters do it.

choice            which converter a key or value has
plain_converters  bytes and text, and the values of headers
json_converter    JSON: inferred_column and json_inference find types of what has no schema next to it
framed_converter  what names its schema in a registry, which framing takes apart; registry_schemas has these
typed_columns     segments of rows of one type, of keys and of values, put together

`headrace.conversion.sink_records` converts whole records with them.
"""
