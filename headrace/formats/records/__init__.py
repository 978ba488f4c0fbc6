"""What of a row goes into key, value, headers and timestamp of its record.

key_headers_timestamp    the same for all of an object: key, headers, the record's timestamp; one row's fields
record_builder  from each row's fields, the timestamp included
restored        as an archived record had them, of Aiven's envelope too
registry        keys and values in a schema registry's framing, by protobuf_schemas and protobuf_messages too
"""
