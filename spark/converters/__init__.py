"""Keys, values and headers from the bytes in Kafka to typed columns, as Kafka Connect's converters do it.

record_converter   a fetch of one partition becomes runs of one schema, and faults
choice             which converter a part has
plain_converters   bytes and text; json_converter: JSON without a schema
"""

from spark.converters.record_converter import RecordConverter

__all__ = ["RecordConverter"]
