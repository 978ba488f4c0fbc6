"""What an operator writes to restore an archive, and its objects as the product's own readers give them."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from headrace.conversion.archives import ArchiveDecoder
from headrace.formats import DecodeOptions
from headrace.model.columns import Headers
from headrace.options import Settings
from headrace.vendors.load import load
from tests.simulation.layouts_records import BYTES_CLASS, converter_of
from tests.simulation.sink_generator import STRING

_ALL_FIELDS: Final = "key,value,offset,timestamp,headers"
_TEXTS: Final = ("jsonl", "json")


class Restored(NamedTuple):
    """A record as a restore gives it."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


def restore_options(sink: Mapping[str, str]) -> dict[str, str]:
    """The options of a restore that know of the sink's what its objects do not show."""
    layout, form = sink["output.layout"], sink["output.format"]
    found = {"input.layout": layout}
    is_text = form in _TEXTS
    is_bare = sink.get("output.envelope") == "false"
    if is_text:
        found["restore.value"] = _form(converter_of(sink))
        # One vendor's keys are always texts.
        found["restore.key"] = "string" if layout == "quix" else _form(sink.get("key.converter"))
        found["restore.header"] = _header_form(sink)
    if layout == "aiven":
        found["input.format"] = form
        if is_text:
            # Elsewhere columns say it: a bare value that is no record is a record of one field.
            found["restore.envelope"] = "no" if is_bare else "yes"
        if form == "csv":
            given = sink.get("output.fields", "value" if is_bare else _ALL_FIELDS)
            found["format.output.fields"] = given
            found["format.output.fields.value.encoding"] = sink.get("output.value.encoding", "base64")
    elif layout == "lenses":
        found["store.envelope"] = "false" if is_bare or form in ("csv", "text", "bytes") else "true"
        if form == "csv":
            found["csv.header"] = sink.get("csv.header", "true")
        if is_text and not is_bare:
            # Keys and values that are bytes are marked as such.
            found |= {
                name: "auto" for name in ("restore.key", "restore.value") if found.get(name) == "base64"
            }
    elif layout == "confluent":
        found["restore.key"] = _side_form(sink)
        found["restore.header"] = _header_form(sink)
        if "bytes" in (form, sink.get("sidecars.keys.format")):
            separator = sink.get("output.separator", "\\n")
            found["format.bytearray.separator"] = separator.replace("\\n", "\n")
    return found


def _header_form(sink: Mapping[str, str]) -> str:
    # A header that a transform inserts is a text, whatever the others are.
    is_text = sink.get("header.converter") is not None or "header" in sink.get("transforms", "").split(",")
    return "string" if is_text else "base64"


def _form(converter: str | None) -> str:
    if converter in (None, BYTES_CLASS):
        return "base64"
    return "string" if converter == STRING else "json"


def _side_form(sink: Mapping[str, str]) -> str:
    """Keys beside values are JSON texts in lines, and what they were elsewhere."""
    form = sink.get("sidecars.keys.format", "avro")
    return _form(sink.get("key.converter")) if form == "jsonl" else "auto"


# -- The product's own readers -------------------------------------------------------------------------------


class _Source:
    """An object in memory."""

    def __init__(self, content: bytes, name: str) -> None:
        self._content = content
        self.name = name
        self.size = len(content)
        self.fetched_bytes = 0

    def stream(self, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from begin to end."""
        yield self._content[begin:end]

    def read_at(self, offset: int, length: int) -> bytes:
        """One ranged read."""
        return self._content[offset : offset + length]


@cache
def _settings(text: str) -> Settings:
    return load(text, kind="json", environment={}, read_file=str)


def restored_rows(sink: Mapping[str, str], key: str, body: bytes) -> list[Restored]:
    """The records of one object; ObjectError where the product cannot read it."""
    options: dict[str, Any] = {
        "name": "restore",
        "bootstrap.servers": "broker:9092",
        "aws.s3.bucket.name": "archive",
        "aws.s3.region": "us-east-1",
        "topic": "restored",
        **restore_options(sink),
    }
    settings = _settings(json.dumps(options))
    assert settings.format.restore is not None
    decoder = ArchiveDecoder(settings.format.restore)
    decode = DecodeOptions(format=settings.format, topic="restored")
    found = []
    source = _Source(body, f"s3://archive/{key}")
    for batch in decoder.decode(source, None, key=key, options=decode, begin=None, end=None):
        for row in range(len(batch)):
            stamp = -1 if batch.timestamps_ms is None else int(batch.timestamps_ms[row])
            found.append(
                Restored(
                    None if batch.keys is None else batch.keys.get(row),
                    batch.values.get(row),
                    () if batch.headers is None else batch.headers[row],
                    None if stamp < 0 else stamp,
                )
            )
        for bad in batch.bad:
            raise AssertionError(f"{key}: a row is bad: {bad.message}")
    return found
