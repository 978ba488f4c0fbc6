"""What decoders need to know of the settings: frozen, small and picklable, made once for a batch of work."""

from dataclasses import dataclass, field

from ingest.settings.choices import Compression, Envelope, EnvelopeField, InputFormat, JsonFormat, ValueFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How the rows of an object are cut out and what of them goes into key, value, headers and timestamp.

    `overhead_bytes` is what key and headers that are the same for all rows add to each record when it is
    measured against `record_max_bytes`. Field paths are names with dots for nesting; None where the key,
    value, timestamp or headers do not come from a field; each entry of the object at `header_field` is a
    header. `source_headers` asks for the header that tells where each row stood (`headrace.position`); the
    constant ones are the task's.
    """

    input_format: InputFormat = InputFormat.BYTES
    compression: Compression = Compression.AUTO
    chunk_bytes: int = 4096
    record_max_bytes: int = 1048576
    decode_unit_max_bytes: int = 67108864
    overhead_bytes: int = 0
    value_format: ValueFormat = ValueFormat.AUTO
    json_format: JsonFormat = JsonFormat.ISO
    key_field: str | None = None
    value_field: str | None = None
    timestamp_field: str | None = None
    header_field: str | None = None
    source_headers: bool = False
    envelope: Envelope = Envelope.NONE
    envelope_base64: frozenset[EnvelopeField] = field(default=frozenset())
