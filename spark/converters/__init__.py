"""Keys, values and headers from the bytes in Kafka to typed columns, as Kafka Connect's converters do it.

record_converter  a fetch of one partition becomes runs of one schema, and faults; runs puts parts together
choice            which converter a part has
plain_converters  bytes and text
json_converter    JSON: json_inference finds schemas of what has none beside it
avro_converter    Avro in the registry's framing: registry_schemas, avro_reader, avro_types
writable_runs     runs of one schema of the rows, and the records that no object can take
single_runs       the records of a run one by one
"""

from spark.converters.record_converter import RecordConverter
from spark.converters.single_runs import single_runs

__all__ = ["RecordConverter", "single_runs"]
