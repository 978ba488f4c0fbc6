"""A hash of the settings that give a position in an object its meaning, kept next to it in the ledger."""

import hashlib
from typing import Any

import msgspec

from headrace.options.choices import Compression, InputFormat
from headrace.options.settings import FormatSettings, RoutingSettings
from headrace.options.transforms import NO_TRANSFORMS, TransformChain


def options_hash(
    format_settings: FormatSettings, routing: RoutingSettings, transforms: TransformChain = NO_TRANSFORMS
) -> str:
    """16 hex digits that change when a position would mean another row, or its records go elsewhere.

    A resume under another hash is quarantined (`configuration_changed`): it could lose or repeat rows. What
    only changes how a row looks (JSON format, keys, headers) is left out; so is what a format ignores.
    """
    meaning: dict[str, Any] = {
        "format": format_settings.input_format,
        "envelope": format_settings.envelope,
        "topic": routing.topic,
        "template": routing.file_name_template,
        "match": routing.file_name_match,
    }
    if format_settings.input_format is InputFormat.BYTES:
        meaning["chunk_bytes"] = format_settings.chunk_bytes
        # Only here the setting decides: everywhere else the first bytes of the object do.
        meaning["stored"] = format_settings.compression is Compression.NONE
    if format_settings.restore is not None:
        # Which rows an object has, and which of them are records, depends on all options of the restore.
        meaning["restore"] = format_settings.restore
    if format_settings.input_format in {InputFormat.CSV, InputFormat.AUTO}:
        # What bounds rows; names and types only change how they look.
        csv = format_settings.csv
        meaning["csv"] = [csv.delimiter.decode(), csv.quote.decode(), csv.header]
    if format_settings.input_format in {InputFormat.TEXT, InputFormat.AUTO}:
        meaning["text"] = [format_settings.text.start, format_settings.text.end]
    if format_settings.input_format is InputFormat.JSON and format_settings.json_path:
        meaning["json_path"] = format_settings.json_path
    if format_settings.packing is not None:
        # Which archives have rows, and which of their members: without it they have none.
        meaning["archive"] = [format_settings.packing.kind, *format_settings.packing.members]
    if transforms.routes:
        meaning["transforms"] = transforms.text
    return hashlib.sha256(msgspec.json.encode(meaning, order="sorted")).hexdigest()[:16]
