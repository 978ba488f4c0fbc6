"""DecodeOptions with the defaults of the contract and what a test changes of them."""

from typing import Any

from headrace.formats import DecodeOptions
from headrace.options.choices import (
    Compression,
    Envelope,
    InputFormat,
    JsonFormat,
    NoSource,
    ProduceTime,
    RowSource,
    ValueFormat,
)
from headrace.options.settings import FormatSettings


def decode_options(
    input_format: InputFormat,
    *,
    topic: str = "orders",
    overhead_bytes: int = 0,
    topic_max_bytes: int | None = None,
    **changes: Any,
) -> DecodeOptions:
    """Options for one format; `changes` are fields of FormatSettings."""
    values: dict[str, Any] = {
        "input_format": input_format,
        "compression": Compression.AUTO,
        "chunk_bytes": 4096,
        "record_max_bytes": 1 << 20,
        "decode_unit_max_bytes": 64 << 20,
        "key_source": NoSource(),
        "key_format": ValueFormat.AUTO,
        "value_source": RowSource(),
        "value_format": ValueFormat.AUTO,
        "json_format": JsonFormat.ISO,
        "headers": NoSource(),
        "timestamp": ProduceTime(),
        "envelope": Envelope.NONE,
        "envelope_base64": (),
        "registry": None,
    }
    return DecodeOptions(
        format=FormatSettings(**values | changes),
        topic=topic,
        overhead_bytes=overhead_bytes,
        topic_max_bytes=topic_max_bytes,
    )
