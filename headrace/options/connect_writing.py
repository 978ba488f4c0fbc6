"""How Kafka Connect's data are written, as options say it: JSON of JsonConverter, Avro of AvroData."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Astral(StrEnum):
    """How characters beyond U+FFFF are written.

    Jackson escapes them as two surrogates where it writes bytes, and leaves them where it writes text.
    """

    ESCAPED = "escaped"
    RAW = "raw"


class DecimalFormat(StrEnum):
    """`decimal.format` of JsonConverter."""

    BASE64 = "BASE64"
    NUMERIC = "NUMERIC"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStyle:
    """How JSON is written. `fill_defaults` is `replace.null.with.default`."""

    decimals: DecimalFormat = DecimalFormat.BASE64
    astral: Astral = Astral.ESCAPED
    fill_defaults: bool = True


STYLE: Final = JsonStyle()


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
