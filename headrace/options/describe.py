"""The settings as they may be shown, compared with others, and as the hash that the ledger keeps.

They are shown in `/status`, the REST interface and dumps. Two configurations are the same by names and texts,
secrets included. The hash is of what gives a position in an object its meaning.
"""

import hashlib
from collections.abc import Iterator, Mapping
from hmac import compare_digest
from typing import Any

import msgspec

from headrace.options import client_names
from headrace.options.aws_forms import queue_region
from headrace.options.build import state_dir
from headrace.options.choices import Compression, InputFormat
from headrace.options.declarations import (
    BY_NAME,
    OPTIONS,
    connection_options,
    reading_options,
    record_options,
    sink_options,
)
from headrace.options.declarations.option import WITHOUT_MEANING
from headrace.options.given import Entry, canonical
from headrace.options.name_checks import DEFAULT_TEMPLATE
from headrace.options.parsed_options import Values, direction, is_for
from headrace.options.settings import FormatSettings, RoutingSettings, Settings
from headrace.options.transforms import NO_TRANSFORMS, TransformChain
from headrace.options.vendor import Direction


def describe(settings: Settings) -> dict[str, str]:
    """Return the effective value of each option by name, secrets masked, references left as written.

    Options that are neither given nor have a default are left out; `settings.given` tells the given ones.
    """
    return dict(settings.shown)


def shown_values(
    entries: Mapping[str, Entry], values: Values, environment: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return what `describe` shows, sorted by name."""
    way = direction(values)
    found = {
        option.name: option.default
        for option in OPTIONS
        if option.default is not None and is_for(option, way)
    }
    found[connection_options.OFFSETS_TOPIC.name] = f"{values[connection_options.NAME]}-offsets"
    found[connection_options.STATE_DIR.name] = str(state_dir(None, environment))
    found[reading_options.REGION.name] = values[reading_options.REGION]
    queue_url = values[reading_options.QUEUE]
    if queue_url is not None:
        found[reading_options.SQS_REGION.name] = queue_region(queue_url) or values[reading_options.REGION]
    if way is Direction.SINK:
        found[record_options.FILE_NAME_TEMPLATE.name] = DEFAULT_TEMPLATE
        found[sink_options.BUFFER_DIR.name] = str(
            state_dir(values[connection_options.STATE_DIR], environment) / "buffer"
        )
    found.update({name: entry.shown_whole for name, entry in entries.items()})
    return tuple(sorted(found.items()))


def changed_options(settings: Settings, config: Mapping[str, str | None], *, is_whole: bool) -> list[str]:
    """Return the names of the options that `config` would change, sorted; none: it is the running one.

    A value counts as the same as it was written, with its references replaced, and as `describe` shows it.
    None removes an option. `is_whole` says that what `config` leaves out is removed too; only what a Connect
    worker knows by itself (brokers and their security) may be left out.
    """
    named = {canonical(name): text for name, text in config.items()}
    changed = set(_given_otherwise(settings, named))
    if is_whole:
        changed.update(_left_out(settings, named))
    return sorted(changed)


def _given_otherwise(settings: Settings, named: Mapping[str, str | None]) -> Iterator[str]:
    shown = describe(settings)
    texts = {option: (raw.reveal(), text.reveal()) for option, raw, text in settings.texts}
    for name, text in named.items():
        if name in WITHOUT_MEANING:
            continue
        known = {*texts.get(name, ()), *([shown[name]] if name in shown else [])}
        if text is None:
            if name in texts and not _is_default(name, texts[name][1]):
                yield name
        elif not any(compare_digest(text.strip().encode(), one.strip().encode()) for one in known):
            yield name


def _left_out(settings: Settings, named: Mapping[str, str | None]) -> Iterator[str]:
    for name, _, text in settings.texts:
        is_workers = name == "bootstrap.servers" or name in client_names.TOP_LEVEL
        if name not in named and not is_workers and not _is_default(name, text.reveal()):
            yield name


def _is_default(name: str, text: str) -> bool:
    option = BY_NAME.get(name)
    return option is not None and option.default == text.strip()


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
