"""Classes that Confluent's configurations name, by their full or simple names."""

from collections.abc import Mapping
from typing import Final, TypeVar

from headrace.options.vendor_translation import Translation

T = TypeVar("T")


def class_of(
    given: Translation, option: str, known: Mapping[str, T], default: T, *, otherwise: str = ""
) -> T:
    """What one of these classes stands for; a problem that lists them for another one.

    `otherwise` says what else can be written.
    """
    text = given.text(option)
    if not text:
        return default
    if text not in known:
        given.refuse(
            option, f"is a class that is not known here; the known ones are {', '.join(known)}{otherwise}"
        )
        return default
    return known[text]


FORMATS: Final = {
    "io.confluent.connect.s3.format.avro.AvroFormat": "avro",
    "io.confluent.connect.s3.format.json.JsonFormat": "jsonl",
    "io.confluent.connect.s3.format.parquet.ParquetFormat": "parquet",
    "io.confluent.connect.s3.format.bytearray.ByteArrayFormat": "bytes",
}
"""The formats of objects, as `output.format` spells them."""

HEADER_FORMATS: Final = {name: spelled for name, spelled in FORMATS.items() if spelled != "bytes"}
"""Those that headers can have."""

STORAGES: Final = {"io.confluent.connect.s3.storage.S3Storage": "s3"}
