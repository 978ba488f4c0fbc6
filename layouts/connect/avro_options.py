"""What Confluent's AvroData is told, and the names that it puts into schemas."""

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroOptions:
    """The options of AvroData, with the defaults of AvroConverter; Confluent's S3 sink sets `enhanced`.

    `enhanced` is `enhanced.avro.schema.support`: enums stay enums, members of unions keep their full names.
    `meta_data` is `connect.meta.data`: documentation, versions, parameters, defaults and names of Connect
    are kept as properties. `optional_map_keys` is `allow.optional.map.keys`. `scrub_names` is
    `scrub.invalid.names`.
    """

    enhanced: bool = False
    meta_data: bool = True
    optional_map_keys: bool = False
    scrub_names: bool = False


CONVERTER: Final = AvroOptions()
S3_SINK: Final = AvroOptions(enhanced=True)
