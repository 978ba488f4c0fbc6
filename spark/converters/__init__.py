"""Keys, values and headers from the bytes in Kafka to typed columns, as Kafka Connect's converters do it.

record_converter  a fetch of one partition becomes runs of one schema, and faults; runs puts parts together
choice            which converter a part has
plain_converters  bytes and text
json_converter    JSON: inferred_column and json_inference find types of what has no schema beside it
avro_converter    Avro in the registry's framing: registry_schemas, avro_reader, avro_types
writable_runs     runs of one schema of the rows, and the records that no object can take
"""

from spark.converters.record_converter import RecordConverter

__all__ = ["RecordConverter"]
