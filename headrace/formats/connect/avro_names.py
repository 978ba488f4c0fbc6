"""The options of Confluent's AvroData, and the names that it puts into schemas."""

from typing import Final

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
# Marks a default that came from the field of an Avro record.
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
FIXED_SIZE: Final = "connect.fixed.size"
INTERNAL_TYPE: Final = "connect.internal.type"
DEFAULT_PRECISION: Final = 64
