"""A restore's options: held against the others, and as one value."""

from typing import Any, Final

from headrace.names import TemplateError
from headrace.names.archive_names import LayoutName, archive_template
from headrace.options.choices import (
    Enveloped,
    FileNameMatch,
    Form,
    InputFormat,
    InputLayout,
    NameOptions,
    NoSource,
    ObjectHeaders,
    RestoreOptions,
    RestoreSidecars,
    RestoreTombstones,
)
from headrace.options.declarations import format_options, reading_options, record_options, restore_options
from headrace.options.declarations.option import Option
from headrace.options.given import Values
from headrace.options.settings import JoiningSettings, RestoreSettings

# The options that mean nothing where objects are no archive.
_OF_ARCHIVES: Final = tuple(
    option
    for option in vars(restore_options).values()
    if isinstance(option, Option) and option is not restore_options.LAYOUT
)
# What the archive decides: a record comes back as it was.
_OF_OTHER_OBJECTS: Final = (
    record_options.KEY_FROM,
    record_options.VALUE_FROM,
    record_options.VALUE_FORMAT,
    record_options.RECORD_FIELDS,
    record_options.TIMESTAMP_FROM,
    record_options.ENVELOPE,
    record_options.ENVELOPE_BASE64,
    record_options.KEY_CONVERTER_CLASS,
    record_options.VALUE_CONVERTER_CLASS,
    format_options.TEXT_START,
    format_options.TEXT_END,
    format_options.TEXT_PATTERN,
    format_options.JSON_PATH,
    format_options.ARCHIVE,
)
_OF_QUOTED_CSV: Final = (
    format_options.CSV_DELIMITER,
    format_options.CSV_QUOTE,
    format_options.CSV_HEADER,
    format_options.CSV_COLUMNS,
    format_options.CSV_TYPES,
)

# The sinks' own options that say what rows are, and of whose archive.
_SINKS_ENVELOPES: Final = {
    restore_options.STORE_ENVELOPE: (InputLayout.LENSES, "Lenses'"),
    restore_options.FORMAT_ENVELOPE: (InputLayout.AIVEN, "Aiven's"),
}


def is_restore(values: Values) -> bool:
    """Return whether the objects are an archive with names and rows of its own."""
    layout = restore_options.LAYOUT
    return values.are_good(layout) and values[layout] is not InputLayout.NONE


def input_format(values: Values) -> InputFormat:
    """Return what objects hold, where `input.format` is good; next to a layout each object says it itself."""
    if is_restore(values) and not values.is_given(record_options.INPUT_FORMAT):
        return InputFormat.AUTO
    found: InputFormat = values[record_options.INPUT_FORMAT]
    return found


def check_restore(values: Values) -> None:
    """Note what a restore cannot do as it is configured."""
    if not values.are_good(restore_options.LAYOUT):
        return
    if not is_restore(values):
        for option in _OF_ARCHIVES:
            if values.is_given(option):
                values.refuse(option, "means nothing without input.layout")
        return
    for option in _OF_OTHER_OBJECTS:
        if values.is_given(option):
            values.refuse(option, _remedy(option))
    headers = record_options.HEADERS_FROM
    if values.are_good(headers) and not isinstance(values[headers], NoSource | ObjectHeaders):
        values.refuse(headers, "must be none or source with input.layout, which brings the headers of rows")
    _check_quoted_csv(values)
    _check_envelope(values)
    _check_prefix(values)
    _check_columns(values)
    _check_tombstones(values)
    _check_own_rows(values)


def _check_own_rows(values: Values) -> None:
    """Headrace's envelope says itself how each part is written, but for texts that were written as JSON."""
    value, sidecars, told = restore_options.VALUE, restore_options.SIDECARS, restore_options.ENVELOPED
    if values[restore_options.LAYOUT] is not InputLayout.HEADRACE or not values.are_good(
        value, sidecars, told
    ):
        return
    is_enveloped = values[told] is Enveloped.YES
    if values.is_given(value) and is_enveloped and values[value] in {Form.JSON, Form.BASE64}:
        values.refuse(
            value,
            f"means nothing with input.layout=headrace and {told.name}=yes, whose rows say themselves what "
            "is base64; remove it, or set string for texts that were written as JSON",
        )
    for option in (restore_options.KEY, restore_options.HEADER):
        if values.is_given(option) and values[sidecars] is RestoreSidecars.IGNORE:
            values.refuse(
                option,
                f"means nothing with input.layout=headrace and {sidecars.name}=ignore: it is for objects of "
                "keys and headers, and rows say themselves what is base64; remove it",
            )


def _check_tombstones(values: Values) -> None:
    option = restore_options.TOMBSTONES
    if (
        values.are_good(restore_options.SIDECARS, option)
        and values.is_given(option)
        and values[option] is not RestoreTombstones.IGNORE
        and values[restore_options.SIDECARS] is RestoreSidecars.IGNORE
    ):
        values.refuse(option, "must be ignore with restore.sidecars=ignore: tombstones are keys")


def _check_quoted_csv(values: Values) -> None:
    if values[restore_options.LAYOUT] in {InputLayout.LENSES, InputLayout.AUTO}:
        return
    for option in _OF_QUOTED_CSV:
        if values.is_given(option):
            values.refuse(option, "means nothing here: no sink but Lenses' writes csv with quotes")


def _remedy(option: Option[Any]) -> str:
    match option:
        case (
            format_options.TEXT_START
            | format_options.TEXT_END
            | format_options.TEXT_PATTERN
            | format_options.JSON_PATH
            | format_options.ARCHIVE
        ):
            other = "leave it out"
        case record_options.TIMESTAMP_FROM:
            other = "use restore.timestamp"
        case record_options.ENVELOPE | record_options.ENVELOPE_BASE64:
            other = "use restore.envelope, restore.key and restore.value"
        case record_options.KEY_FROM | record_options.KEY_CONVERTER_CLASS:
            other = "use restore.key"
        case _:
            other = "use restore.value"
    return f"has no part in a restore, where input.layout says what rows hold; {other}"


def _check_columns(values: Values) -> None:
    parts = (restore_options.VALUE, restore_options.KEY, restore_options.HEADER, restore_options.TIMESTAMP)
    columns = (
        restore_options.KEYS_FORMAT,
        restore_options.ENVELOPED,
        restore_options.STORE_ENVELOPE,
        restore_options.FORMAT_ENVELOPE,
        restore_options.CSV_FIELDS,
        restore_options.CSV_ENCODING,
    )
    if not values.are_good(*parts, *columns):
        return
    try:
        _row_options(values)
    except ValueError:
        values.refuse(
            restore_options.CSV_FIELDS, "expected a list of key, value, offset, timestamp, headers, each once"
        )


def template_variables(values: Values) -> frozenset[str] | None:
    """Return what keys of the archive name; None, its problem noted, where its template does not compile."""
    template = values[record_options.FILE_NAME_TEMPLATE]
    if template is None:
        return frozenset({"topic", "partition", "start_offset"})
    if values[restore_options.LAYOUT] is InputLayout.AUTO:
        values.refuse(
            record_options.FILE_NAME_TEMPLATE,
            "says how keys of one layout are read; name it in input.layout instead of auto",
        )
        return None
    if (
        values.is_given(record_options.FILE_NAME_MATCH)
        and values.are_good(record_options.FILE_NAME_MATCH)
        and values[record_options.FILE_NAME_MATCH] is FileNameMatch.SEARCH
    ):
        values.refuse(
            record_options.FILE_NAME_MATCH,
            "must be exact with input.layout: a sink's template is no pattern",
        )
    try:
        return archive_template(template).names
    except TemplateError as error:
        values.refuse(record_options.FILE_NAME_TEMPLATE, str(error))
        return None


def names_have_partition(values: Values) -> bool:
    """Return whether keys of the archive name the partition, as far as the options say how they are read."""
    template = values[record_options.FILE_NAME_TEMPLATE]
    if template is None:
        return True
    try:
        return "partition" in archive_template(template).names
    except TemplateError:
        return False


def restore_settings(values: Values) -> RestoreSettings | None:
    """Return what the restore was told; None where objects are no archive."""
    layout: InputLayout = values[restore_options.LAYOUT]
    if layout is InputLayout.NONE:
        return None
    separator = values[restore_options.SEPARATOR]
    return RestoreSettings(
        layout=None if layout is InputLayout.AUTO else LayoutName(layout.value),
        template=values[record_options.FILE_NAME_TEMPLATE],
        names=NameOptions(
            prefix=values[reading_options.PREFIX],
            indexes=values[restore_options.INDEXES],
            file_delimiter=values[restore_options.FILE_DELIMITER],
            directory_delimiter=values[restore_options.DIRECTORY_DELIMITER],
            tombstone_directory=values[restore_options.TOMBSTONE_DIRECTORY],
        ),
        rows=_row_options(values),
        topic_map=values[restore_options.TOPIC_MAP_OPTION],
        partition=values[restore_options.PARTITION],
        is_format_given=input_format(values) is not InputFormat.AUTO,
        is_header_given=values.is_given(format_options.CSV_HEADER),
        separator=b"\n" if separator is None else separator.encode(),
    )


def joining_settings(values: Values) -> JoiningSettings:
    """Return what objects of an archive are read together."""
    sidecars: RestoreSidecars = values[restore_options.SIDECARS]
    tombstones: RestoreTombstones = values[restore_options.TOMBSTONES]
    # Keys that nobody restores are deleted by nobody, and our own names have no directory of tombstones.
    without_keys = (
        sidecars is RestoreSidecars.IGNORE or values[restore_options.LAYOUT] is InputLayout.HEADRACE
    )
    return JoiningSettings(
        sidecars=sidecars,
        wait_ms=values[restore_options.SIDECARS_WAIT],
        tombstones=RestoreTombstones.IGNORE if without_keys else tombstones,
    )


def _told_by_sinks(values: Values) -> dict[InputLayout, Enveloped]:
    """Return what the sinks' own options say of rows, each of those of its sink."""
    return {
        layout: Enveloped.YES if values[option] else Enveloped.NO
        for option, (layout, _) in _SINKS_ENVELOPES.items()
        if values[option] is not None
    }


def _check_envelope(values: Values) -> None:
    told = restore_options.ENVELOPED
    for stored, (layout, sink) in _SINKS_ENVELOPES.items():
        if not values.are_good(*_SINKS_ENVELOPES, told) or not values.is_given(stored):
            continue
        if values[restore_options.LAYOUT] not in {layout, InputLayout.AUTO}:
            values.refuse(stored, f"means nothing here: it is an option of {sink} sink; use restore.envelope")
        elif (
            values[restore_options.LAYOUT] is layout
            and values.is_given(told)
            and values[told] is not _told_by_sinks(values)[layout]
        ):
            values.refuse(told, f"says otherwise than {stored.name}; keep one of them")


def _check_prefix(values: Values) -> None:
    """Aiven's sink has variables there, which name as many places as they have values."""
    option = reading_options.PREFIX
    if values.are_good(option) and "{{" in (values[option] or ""):
        values.refuse(
            option,
            "has variables of a sink, and is the beginning of keys here: give what is before the first of "
            "them, a slash at its end",
        )


def _row_options(values: Values) -> RestoreOptions:
    fields = values[restore_options.CSV_FIELDS].split(",")
    layout, told = values[restore_options.LAYOUT], _told_by_sinks(values)
    envelope: Enveloped = told.get(layout, values[restore_options.ENVELOPED])
    return RestoreOptions(
        value=values[restore_options.VALUE],
        key=values[restore_options.KEY],
        header=values[restore_options.HEADER],
        timestamp=values[restore_options.TIMESTAMP],
        envelope=envelope,
        envelopes=tuple((LayoutName(of.value), each) for of, each in told.items() if each is not envelope)
        if layout is InputLayout.AUTO
        else (),
        keys_format=values[restore_options.KEYS_FORMAT],
        csv_fields=tuple(field.strip().lower() for field in fields),
        csv_encoding=values[restore_options.CSV_ENCODING],
    )
