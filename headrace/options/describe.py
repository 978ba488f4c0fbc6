"""The settings as they may be shown, compared with others, and as the hash that the ledger keeps.

They are shown in `/status`, the REST interface and dumps. Two configurations are the same by names and texts,
secrets included. The hash is of what gives a position in an object its meaning.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from functools import cache
from hmac import compare_digest
from itertools import chain
from typing import Any, Final

import msgspec

from headrace.options import client_names
from headrace.options.aws_forms import queue_region
from headrace.options.build import state_dir
from headrace.options.choices import Compression, CsvEncoding, InputFormat, KeysFormat, NameOptions
from headrace.options.declarations import (
    BY_NAME,
    OPTIONS,
    connection_options,
    reading_options,
    record_options,
    sink_options,
)
from headrace.options.declarations.option import WITHOUT_MEANING
from headrace.options.given import Entry, Values, as_written, canonical, direction, is_for
from headrace.options.name_checks import DEFAULT_TEMPLATE
from headrace.options.references import led_to, with_references
from headrace.options.secret import HIDDEN, MASK
from headrace.options.settings import FormatSettings, RestoreSettings, RoutingSettings, Settings
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
    found = dict(_defaults_of(way))
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


@cache
def _defaults_of(way: Direction) -> Mapping[str, str]:
    return {
        option.name: option.default
        for option in OPTIONS
        if option.default is not None and is_for(option, way)
    }


def unresolved(sentence: str, settings: Settings) -> str:
    """Return a sentence about the connector with what its references led to as it was written."""
    pairs = ((raw.reveal(), text.reveal()) for _, raw, text in settings.written)
    return with_references(
        sentence, chain.from_iterable(led_to(*pair) for pair in pairs if pair[0] != pair[1])
    )


def written_options(settings: Settings) -> dict[str, str]:
    """Return the options as they were given, names and references too; secrets are masked."""
    return {name: as_written(name, raw.reveal()).shown_whole for name, raw, _ in settings.written}


def changed_options(settings: Settings, config: Mapping[str, str | None], *, is_whole: bool) -> list[str]:
    """Return the names of the options that `config` would change, sorted; none: it is the running one.

    A value counts as the same as it was written, with its references replaced, and as it is shown. None
    removes an option. `is_whole` says that what `config` leaves out is removed too; only what a Connect
    worker knows by itself (brokers and their security) may be left out. Options of another vendor's connector
    are compared by their texts alone. The class is not compared.
    """
    known_as = _known_as(settings)
    named = {known_as(name): text for name, text in config.items()}
    written = _written(settings)
    changed = {name for name, text in named.items() if _is_changed(settings, written, name, text)}
    if is_whole:
        left_out = {name: text for name, (text, _) in written.items() if name not in named}
        changed.update(
            name
            for name, text in left_out.items()
            if not _is_workers(name) and not _is_needless(settings, name, text)
        )
    return sorted(changed - {_CLASS})


def applied(settings: Settings, config: Mapping[str, str | None], *, is_whole: bool) -> dict[str, str]:
    """Return the configuration that `config` would make of the running one, which `is_same` compares with it.

    What is as before has its references replaced.
    """
    known_as = _known_as(settings)
    written = _written(settings)
    whole = {} if is_whole else {name: text for name, (text, _) in written.items()}
    for name, text in ((known_as(name), text) for name, text in config.items()):
        if text is None:
            whole.pop(name, None)
        else:
            before, alike = written.get(name, ("", ()))
            whole[name] = before if _is_one_of(text, alike) else text
    return whole


def unmasked(settings: Settings, config: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration with what is shown of the running one's secrets as it was written."""
    known_as = _known_as(settings)
    written = {known_as(name): as_written(name, raw.reveal()) for name, raw, _ in settings.written}

    def one(name: str, text: str) -> str:
        entry = written.get(known_as(name))
        if entry is None:
            return text
        masks = {MASK, HIDDEN} if entry.is_secret else {entry.shown_whole}
        return entry.raw if text.strip() in masks else text

    return {name: one(name, text) for name, text in config.items()}


def is_same(settings: Settings, other: Settings) -> bool:
    """Whether the options of another configuration, translated, are those of the running one.

    `other` may leave out what a worker knows, and the surroundings in which it was read do not count.
    """
    shown = describe(settings)
    before, after = (
        {name: text.reveal().strip() for name, _, text in each.texts} for each in (settings, other)
    )
    for name in {*before, *after} - {_CLASS}:
        if name not in after:
            same = _is_workers(name) or _is_default(name, before[name])
        else:
            known = before.get(name, shown.get(name))
            same = known is not None and _is_one_of(after[name], (known,))
        if not same:
            return False
    groups = [None if each.sink is None else each.sink.group_id for each in (settings, other)]
    return groups[0] == groups[1] and (settings.translated is None) is (other.translated is None)


_CLASS: Final = "connector.class"


def _known_as(settings: Settings) -> Callable[[str], str]:
    """Return what makes one name of the names of an option; another vendor's are names of their own."""
    return canonical if settings.translated is None else str.strip


def _written(settings: Settings) -> dict[str, tuple[str, set[str]]]:
    """Return each option's text with its references replaced, and all texts that are as good."""
    known_as = _known_as(settings)
    found: dict[str, tuple[str, set[str]]] = {}
    for name, raw, text in settings.written:
        entry = as_written(name, raw.reveal())
        alike = {raw.reveal(), text.reveal(), entry.shown_whole}
        if entry.is_secret:
            alike |= {MASK, HIDDEN}
        _, others = found.get(known_as(name), ("", set[str]()))
        found[known_as(name)] = text.reveal(), alike | others
    return found


def _is_changed(
    settings: Settings, written: Mapping[str, tuple[str, set[str]]], name: str, text: str | None
) -> bool:
    if name in written:
        before, alike = written[name]
        is_as_before = text is not None and _is_one_of(text, alike)
        return not is_as_before and not _is_needless(settings, name, before if text is None else None)
    if text is None:
        return False
    # An option of ours that is not given is as its default is, or as a worker's file has it.
    effective = {described} if (described := describe(settings).get(name)) is not None else set[str]()
    effective.update(known.reveal() for option, _, known in settings.texts if option == name)
    is_ours = settings.translated is None
    return not (is_ours and (name in WITHOUT_MEANING or _is_one_of(text, effective)))


def _is_one_of(text: str, known: Collection[str]) -> bool:
    return any(compare_digest(text.strip().encode(), one.strip().encode()) for one in known)


def _is_needless(settings: Settings, name: str, text: str | None) -> bool:
    """Whether an option of ours decides nothing: at all, or because this text of it is the default."""
    if settings.translated is not None:
        return False
    return name in WITHOUT_MEANING or (text is not None and _is_default(name, text))


def _is_workers(name: str) -> bool:
    return name == "bootstrap.servers" or name in client_names.TOP_LEVEL


def _is_default(name: str, text: str) -> bool:
    option = BY_NAME.get(name)
    # The region that is not given is the machine's.
    if option is None or option is reading_options.REGION:
        return False
    return option.default == text.strip()


# How patterns of Lenses' lines begin (without flags of their own, which 1.0.0 refused), and how they did.
_OF_LENSES: Final = (("(?u)^(?a:", "^(?:"), ("(?u)^(?i:", "^(?i:"))


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
        meaning["restore"] = _restore_meaning(format_settings.restore)
        if format_settings.restore.rows.csv_encoding is CsvEncoding.NONE:
            # 1.0.0 read such an object as JSON lines where its first value is JSON.
            meaning["csv_cut"] = "csv"
    if format_settings.input_format in {InputFormat.CSV, InputFormat.AUTO}:
        # What bounds rows; names and types only change how they look.
        csv = format_settings.csv
        meaning["csv"] = [csv.delimiter.decode(), csv.quote.decode(), csv.header]
    if format_settings.input_format in {InputFormat.TEXT, InputFormat.AUTO}:
        meaning["text"] = [
            _searched_before(each) for each in (format_settings.text.start, format_settings.text.end)
        ]
    if format_settings.input_format is InputFormat.JSON and format_settings.json_path:
        meaning["json_path"] = format_settings.json_path
    if format_settings.packing is not None:
        # Which archives have rows, and which of their members: without it they have none.
        meaning["archive"] = [format_settings.packing.kind, *format_settings.packing.members]
    if transforms.routes:
        meaning["transforms"] = transforms.text
    return hashlib.sha256(msgspec.json.encode(meaning, order="sorted")).hexdigest()[:16]


def _searched_before(pattern: str | None) -> str | None:
    """The pattern; of Lenses' lines as 1.0.0 made it, for its positions are in bytes and mean the same."""
    for now, before in _OF_LENSES:
        if pattern is not None and pattern.startswith(now):
            return before + pattern.removeprefix(now)
    return pattern


def _restore_meaning(restore: RestoreSettings) -> dict[str, Any]:
    """The restore, without what 1.0.0 did not have and what is at its default: its hashes are in ledgers."""
    meaning: dict[str, Any] = msgspec.to_builtins(restore)
    if restore.names.directory_delimiter == NameOptions().directory_delimiter:
        del meaning["names"]["directory_delimiter"]
    if restore.rows.keys_format is KeysFormat.AUTO:
        del meaning["rows"]["keys_format"]
    if not restore.rows.envelopes:
        del meaning["rows"]["envelopes"]
    # `topic` and `restore.topic.map` have it, which are in the hash.
    del meaning["rows"]["sent_to"]
    return meaning
