"""Keys, values and headers from the bytes in Kafka to typed columns, as Kafka Connect's converters do it.

choice            which converter a key or value has
plain_converters  bytes and text; plain_converters, header_converter
json_converter    JSON: inferred_column and json_inference find types of what has no schema next to it
segments, runs    rows of one type, put together

`headrace.conversion.record_converter` converts whole records with them.
"""
