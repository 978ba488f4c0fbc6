"""What of a row goes into key, value, headers and timestamp of its record.

constant        the same for all of an object: key, headers, and the record's timestamp (constant_timestamp)
record_builder  from each row's fields, the timestamp included; row_fields reads one
restored        as an archived record had them; envelope: as Aiven's rows have them
value_framing   the value in a schema registry's framing, by registry and protobuf_schemas
"""
