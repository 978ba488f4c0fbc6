"""A sink's options for its objects' names, held against one another: what they need and cannot show."""

import re
from collections.abc import Callable, Collection
from itertools import combinations
from typing import Any, Final

from headrace.names import TemplateError
from headrace.names.archive_names import LayoutName
from headrace.names.date_fields import DateKind, has_short_name
from headrace.names.name_ambiguity import is_ambiguous
from headrace.names.name_template import OFFSETS, NameField, NameTemplate, NameVariable, read_name_template
from headrace.options.choices import Compression
from headrace.options.declarations import layout_options as sides
from headrace.options.declarations import reading_options, record_options
from headrace.options.declarations import sink_options as sink
from headrace.options.declarations.option import Option
from headrace.options.given import Values
from headrace.options.layout_checks import layout_form, output_format
from headrace.options.object_endings import object_ending
from headrace.options.record_forms import KINDS
from headrace.options.sink_settings import (
    NUMBER_KINDS,
    OF_REGISTRIES,
    ConverterKind,
    NameTimeSource,
    NullValues,
    OutputField,
    OutputFormat,
    Sidecars,
    SideFormat,
    SideRole,
)

# -- Side objects of a sink, held against what else it is told; and what they come to ------------------------

_PARTS: Final[dict[SideRole, tuple[OutputField, Option[Any], Option[Any]]]] = {
    SideRole.KEYS: (OutputField.KEY, sides.SIDECAR_KEYS_FORMAT, sides.SIDECAR_KEYS_COMPRESSION),
    SideRole.HEADERS: (OutputField.HEADERS, sides.SIDECAR_HEADERS_FORMAT, sides.SIDECAR_HEADERS_COMPRESSION),
}
_LAYOUTS: Final = frozenset({LayoutName.HEADRACE, LayoutName.CONFLUENT})
_COLUMNAR: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})


def side_fields(values: Values) -> frozenset[OutputField]:
    """Return the fields of records that are in side objects."""
    if not values.are_good(sides.SIDECAR_OBJECTS):
        return frozenset()
    return frozenset(_PARTS[role][0] for role in values[sides.SIDECAR_OBJECTS])


def sidecars(
    values: Values,
    template: str,
    codecs: dict[OutputFormat, tuple[Compression, ...]],
    compression: Compression,
) -> Sidecars:
    """Return the side objects; `compression` is that of the values."""
    found = _side_formats(values, codecs, compression)
    return Sidecars(
        keys=found.get(SideRole.KEYS),
        headers=found.get(SideRole.HEADERS),
        tombstone_template=_tombstone_template(values, template),
    )


def _side_formats(
    values: Values, codecs: dict[OutputFormat, tuple[Compression, ...]], compression: Compression
) -> dict[SideRole, SideFormat]:
    found: dict[SideRole, SideFormat] = {}
    for role in values[sides.SIDECAR_OBJECTS]:
        _, form, packed = _PARTS[role]
        chosen = values[packed]
        if chosen is Compression.AUTO:
            chosen = _default(values[form], codecs, compression)
        found[role] = SideFormat(format=values[form], compression=chosen)
    return found


def _tombstone_template(values: Values, source: str) -> str | None:
    """The template of tombstones' names: as given, or made of the others' `source`; None: they have none."""
    directory = values[sides.TOMBSTONE_DIRECTORY]
    return values[sides.TOMBSTONE_TEMPLATE] if directory is None else _with_directory(source, directory)


def _with_directory(source: str, directory: str) -> str:
    """The template of names in which `directory` is between the topic's and the file."""
    *directories, file = source.split("/")
    own = next((place for place, each in enumerate(directories) if "{{topic}}" in each.replace(" ", "")), -1)
    return "/".join([*directories[: own + 1], directory, file])


def check_sidecars(
    values: Values,
    codecs: dict[OutputFormat, tuple[Compression, ...]],
    template: NameTemplate | None,
    compression: Callable[[Values], Compression],
) -> None:
    """Note what side objects cannot be as they are configured; `compression` gives that of the values."""
    if not values.are_good(sides.SIDECAR_OBJECTS, sink.FIELDS):
        return
    roles = values[sides.SIDECAR_OBJECTS]
    if roles and values.are_good(sink.LAYOUT) and values[sink.LAYOUT] not in _LAYOUTS:
        values.refuse(
            sides.SIDECAR_OBJECTS, f"are not written with output.layout={values[sink.LAYOUT]}; remove it"
        )
    needed = [sink.FORMAT, sink.LAYOUT, sides.BYTES_EXTENSION, record_options.COMPRESSION]
    for role, (field, form, packed) in _PARTS.items():
        if role not in roles:
            for option in (form, packed):
                if values.is_given(option):
                    values.refuse_idle(option, f"means nothing without {role} in sidecars")
            continue
        needed += [form, packed]
        if values.is_given(sink.FIELDS) and field in values[sink.FIELDS]:
            values.refuse(
                sink.FIELDS,
                f"has the {field}, which sidecars={role} puts into a side object; name it in one of both",
            )
        if values.are_good(form, packed):
            _check_codec(values, form, packed, codecs)
    if roles and template is not None and template.is_of_keys and values.are_good(*needed):
        _check_sides_of_keys(values, template, codecs, compression(values))
    _check_tombstones(values, template)


def _check_sides_of_keys(
    values: Values,
    template: NameTemplate,
    codecs: dict[OutputFormat, tuple[Compression, ...]],
    compression: Compression,
) -> None:
    """Refuse side objects with names of keys alone, where one could have the name of another key's object."""
    if values[sink.LAYOUT] not in _LAYOUTS:
        return

    def ending(form: OutputFormat, compression: Compression) -> str:
        return object_ending(values[sink.LAYOUT], form, compression, values[sides.BYTES_EXTENSION])

    formats = _side_formats(values, codecs, compression)
    own = ending(output_format(values), compression)
    of_sides = [f".{role}{ending(each.format, each.compression)}" for role, each in formats.items()]
    if _can_meet(_tail(template, own), own, of_sides):
        role = next(iter(formats))
        values.refuse(
            sides.SIDECAR_OBJECTS,
            f"cannot be with such names of keys alone: {role} of the key user could have the name of the "
            f"object of user.{role}, or of its {role}; put {{{{key}}}} into a directory of its own, or end "
            f"{record_options.FILE_NAME_TEMPLATE.name} with {{{{extension}}}} and give "
            f"{sides.SIDECAR_OBJECTS.name}.{role}.format another format than output.format",
        )


def _tail(template: NameTemplate, own: str) -> str:
    """What all names end with: the text after the last variable, `own` for the extension, 0 for a number."""
    tail = ""
    for token in reversed(template.tokens):
        if isinstance(token, str):
            tail = token + tail
        elif token.field is NameField.EXTENSION:
            tail = own + tail
        else:
            return ("0" if token.field is NameField.PARTITION else "") + tail
    return tail


def _can_meet(tail: str, own: str, of_sides: Collection[str]) -> bool:
    """Whether two objects of different keys can have one name, by how these end; what is before is any text.

    A side object's name is that of the values, without `own` at its end, and its own ending.
    """
    if own.endswith(tail) and own != tail:
        # Some names end with `own`, and some are these without it.
        return True
    stem = tail.removesuffix(own)
    # Any number for any other.
    endings = [re.sub(r"\d+", "0", each) for each in (tail, *(stem + each for each in of_sides))]
    return any(one.endswith(other) or other.endswith(one) for one, other in combinations(endings, 2))


def _tombstone_option(values: Values) -> Option[Any] | None:
    """The option that gives tombstones names of their own, None where none does."""
    options = (sides.TOMBSTONE_DIRECTORY, sides.TOMBSTONE_TEMPLATE)
    return next((each for each in options if values.is_given(each)), None)


def _check_codec(
    values: Values,
    form: Option[Any],
    packed: Option[Any],
    codecs: dict[OutputFormat, tuple[Compression, ...]],
) -> None:
    known = codecs[values[form]]
    if values[packed] not in (*known, Compression.AUTO):
        values.refuse_unfit(
            packed, f"cannot be written in {form.name}={values[form]}; it takes {', '.join(known)}"
        )


def _check_tombstones(values: Values, template: NameTemplate | None) -> None:
    option = _tombstone_option(values)
    if option is None or not values.are_good(option, sink.NULL_VALUES):
        return
    if values.is_given(sides.TOMBSTONE_DIRECTORY) and values.is_given(sides.TOMBSTONE_TEMPLATE):
        values.refuse(option, f"and {sides.TOMBSTONE_TEMPLATE.name} exclude each other; keep one of them")
    if SideRole.KEYS not in values[sides.SIDECAR_OBJECTS]:
        values.refuse_idle(
            option, "means nothing without keys in sidecars: a tombstone is nothing but its key"
        )
    if values[sink.NULL_VALUES] is not NullValues.WRITE:
        values.refuse_idle(option, f"means nothing with {sink.NULL_VALUES.name}={values[sink.NULL_VALUES]}")
    if template is not None and template.is_of_keys:
        values.refuse(
            option,
            f"cannot be with {record_options.FILE_NAME_TEMPLATE.name} of keys alone",
        )


def _default(
    form: OutputFormat, codecs: dict[OutputFormat, tuple[Compression, ...]], compression: Compression
) -> Compression:
    if compression in codecs[form]:
        return compression
    return Compression.ZSTD if form in _COLUMNAR else Compression.GZIP


# -- A sink's options for its objects' names, held against one another: what they need and cannot show -------

# What is read as one value has no members.
_WITHOUT_FIELDS: Final = frozenset({ConverterKind.STRING, *NUMBER_KINDS})
DEFAULT_TEMPLATE: Final = "{{topic}}/{{partition}}/{{start_offset:padding=true}}.headrace{{extension}}"
_OWN_DIRECTORY: Final = "topic_id="
_KNOWN_LOCALES: Final = frozenset({"en", "en-US"})
_KEY_ONLY: Final = frozenset({NameField.TOPIC, NameField.PARTITION, NameField.KEY, NameField.EXTENSION})


def converter_kind(values: Values, option: Option[Any]) -> ConverterKind:
    """Return how a part of records is read."""
    text = values.text(option)
    return ConverterKind.BYTES if text is None else KINDS.get(text.strip(), ConverterKind.BYTES)


def template_of(values: Values) -> str:
    """Return the template of names: as given, else the layout's."""
    form = layout_form(values)
    default = DEFAULT_TEMPLATE if form is None else form.template
    return values[record_options.FILE_NAME_TEMPLATE] or default


def check_names(values: Values) -> NameTemplate | None:
    """Note what is wrong with the names of a sink's objects; None without a template that can be read."""
    _check_time_source(values)
    is_plain = values.are_good(sink.NAME_VALUES) and values[sink.NAME_VALUES].is_plain
    if values.is_given(sink.NAME_MISSING) and not is_plain:
        values.refuse_idle(sink.NAME_MISSING, "means nothing without file.name.values=plain or lenses")
    option = record_options.FILE_NAME_TEMPLATE
    given = (option, reading_options.PREFIX, sink.TOPIC_NAMES, sink.NAME_VALUES, sink.NAME_UNIQUE)
    if not values.are_good(*given):
        return None
    source = template_of(values)
    try:
        template = read_name_template(source)
    except TemplateError as error:
        values.refuse(option, str(error))
        return None
    for problem in _name_problems(values, template):
        values.refuse(option, problem)
    if not {".", ".."}.isdisjoint(values[reading_options.PREFIX].split("/")):
        values.refuse(reading_options.PREFIX, "has a directory '.' or '..', which tools that read paths lose")
    _check_tombstone_names(values, template)
    if values.are_good(sink.NAME_LOCALE, sink.TIMEZONE_NAME):
        _check_dates(values, template)
    return template


def _check_tombstone_names(values: Values, of_values: NameTemplate) -> None:
    option = _tombstone_option(values)
    if option is None or not values.are_good(option):
        return
    source = _tombstone_template(values, of_values.source)
    assert source is not None, "the option that is given is good"
    try:
        template = read_name_template(source)
        problems = [f"which {each}" for each in _name_problems(values, template)]
        if template.is_of_keys and not of_values.is_of_keys:
            problems.append(
                "which names the last tombstone of each key, and others would be lost; add {{partition}} and "
                "{{start_offset}}"
            )
    except TemplateError as error:
        problems = [f"which is none: {error}"]
    for problem in problems:
        values.refuse(option, f"makes the template {source}, {problem}")


def _check_time_source(values: Values) -> None:
    time = sink.NAME_TIME_SOURCE
    if not values.are_good(time) or values[time][0] is not NameTimeSource.VALUE:
        return
    if converter_kind(values, record_options.VALUE_CONVERTER_CLASS) in _WITHOUT_FIELDS:
        values.refuse(
            time,
            "names a field of the value, which has none while it is read as text; set value.converter to "
            "JsonConverter's or AvroConverter's class",
        )


def _name_clashes(values: Values, template: NameTemplate) -> list[str]:
    """Why two objects could have one name."""
    found = []
    shown = {token.field for token in template.variables if token.padding.is_readable}
    missing = [f"{{{{{field}}}}}" for field in _needed(values, template) if field not in shown]
    if missing:
        unreadable = sorted(
            {each.field for each in template.variables if not each.padding.is_readable} - shown
        )
        why = (
            "" if not unreadable else f" (digits that fill {', '.join(unreadable)} up cannot be told from it)"
        )
        found.append(
            f"needs {' and '.join(missing)}{why}, or two objects could have one name (one of {{{{key}}}}, "
            "which keeps the last record of each key, goes without {{partition}} and {{start_offset}})"
        )
    if is_ambiguous(template, ".x", plain=values[sink.NAME_VALUES].is_plain):
        found.append(
            "can give one name to different values; put a sign between its variables that neither holds, "
            "such as / (values hold letters, digits and _ - . %)"
        )
    found += _altered_topics(values, template)
    return found


def _altered_topics(values: Values, template: NameTemplate) -> list[str]:
    """Topics that `hyphens` would give one name."""
    altered = [each for each in template.variables if each.field is NameField.TOPIC]
    if not altered or any(each.hyphens == "-" for each in altered):
        return []
    topics = values[sink.TOPIC_NAMES]
    if topics is None:
        problem = (
            "changes hyphens of topics, so that two of topics.regex could meet; list them in topics, or set "
            "file.name.unique=assumed where none do"
        )
        return [problem]
    for each in altered:
        names = [topic.replace("-", each.hyphens) for topic in topics]
        if len(set(names)) < len(names):
            return [f"writes {each.hyphens} for hyphens, which gives two of its topics one name"]
    return []


def _name_problems(values: Values, template: NameTemplate) -> list[str]:
    found = _name_clashes(values, template) if values[sink.NAME_UNIQUE] == "required" else []
    if template.is_of_keys and template.fields - _KEY_ONLY:
        others = ", ".join(f"{{{{{field}}}}}" for field in sorted(template.fields - _KEY_ONLY))
        found.append(
            f"names the last record of each key, which {others} would scatter; add {{{{start_offset}}}}, or "
            "keep {{topic}}, {{partition}}, {{key}} and {{extension}} alone"
        )
    if template.source.startswith(_OWN_DIRECTORY):
        found.append(f"begins with {_OWN_DIRECTORY}, under which topics that were made again are kept apart")
    if template.lost_text is not None:
        found.append(f"has {template.lost_text}")
    found += [_without_fields(each) for each in template.variables if _lacks_fields(values, each)]
    if NameField.SCHEMA_NAME in template.fields and not _has_schemas(values):
        found.append(
            "shows {{schema_name}}, which is known of values read by AvroConverter, or by JsonConverter into "
            "output.format avro or parquet"
        )
    return found


def _needed(values: Values, template: NameTemplate) -> list[NameField]:
    topics = values[sink.TOPIC_NAMES]
    needed = [] if topics is not None and len(topics) == 1 else [NameField.TOPIC]
    if template.is_of_keys:
        return needed
    needed.append(NameField.PARTITION)
    shown = {token.field for token in template.variables if token.padding.is_readable}
    return needed if shown & OFFSETS else [*needed, NameField.START_OFFSET]


def _converter_of(field: NameField) -> Option[Any]:
    return (
        record_options.KEY_CONVERTER_CLASS if field is NameField.KEY else record_options.VALUE_CONVERTER_CLASS
    )


def _lacks_fields(values: Values, variable: NameVariable) -> bool:
    """Whether a variable names a field of what is read as text."""
    if variable.field not in {NameField.KEY, NameField.VALUE} or not variable.path:
        return False
    # Bytes are read as JSON for the name alone; a text has been said to be one.
    return converter_kind(values, _converter_of(variable.field)) in _WITHOUT_FIELDS


def _without_fields(variable: NameVariable) -> str:
    return (
        f"names the field {'.'.join(variable.path)!r} of the {variable.field}, which has none while it is "
        f"read as text; set {_converter_of(variable.field).name} to JsonConverter's or AvroConverter's class"
    )


def _has_schemas(values: Values) -> bool:
    """Whether values come with the schemas of their own that a name can show."""
    kind = converter_kind(values, record_options.VALUE_CONVERTER_CLASS)
    if not values.are_good(sink.FORMAT):
        return True
    return kind in OF_REGISTRIES or (kind is ConverterKind.JSON and values[sink.FORMAT] in _COLUMNAR)


def _check_dates(values: Values, template: NameTemplate) -> None:
    fields = [field for each in template.variables if each.date for field in each.date.fields]
    locale = values[sink.NAME_LOCALE]
    words = next((field.kind for field in fields if field.is_word), None)
    if locale not in _KNOWN_LOCALES and words is not None:
        values.refuse(
            sink.NAME_LOCALE,
            f"is {locale}, whose words and weeks are not known here, and file.name.template shows {words}; "
            "write it as a number, or set en",
        )
    zone = values[sink.TIMEZONE_NAME]
    if any(field.kind is DateKind.ZONE_NAME for field in fields) and not has_short_name(zone):
        values.refuse(
            record_options.FILE_NAME_TEMPLATE,
            f"shows the short name of the time zone, and {zone} has none; write its offset, such as XXX",
        )
