"""Side objects of a sink, held against what else it is told; and what they come to."""

from typing import Any, Final

from headrace.names.archive_names import LayoutName
from headrace.names.name_template import NameTemplate
from headrace.options.choices import Compression
from headrace.options.declarations import record_options
from headrace.options.declarations import sidecar_options as sides
from headrace.options.declarations import sink_options as sink
from headrace.options.declarations.option import Option
from headrace.options.sink_settings import (
    NullValues,
    OutputField,
    OutputFormat,
    Sidecars,
    SideFormat,
    SideRole,
)
from headrace.options.values import Values

_PARTS: Final[dict[SideRole, tuple[OutputField, Option[Any], Option[Any]]]] = {
    SideRole.KEYS: (OutputField.KEY, sides.SIDECAR_KEYS_FORMAT, sides.SIDECAR_KEYS_COMPRESSION),
    SideRole.HEADERS: (OutputField.HEADERS, sides.SIDECAR_HEADERS_FORMAT, sides.SIDECAR_HEADERS_COMPRESSION),
}
_LAYOUTS: Final = frozenset({LayoutName.HEADRACE, LayoutName.CONFLUENT})
_COLUMNAR: Final = frozenset({OutputFormat.AVRO, OutputFormat.PARQUET})


def side_fields(values: Values) -> frozenset[OutputField]:
    """Return the fields of records that stand in side objects."""
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
    found: dict[SideRole, SideFormat] = {}
    for role in values[sides.SIDECAR_OBJECTS]:
        _, form, packed = _PARTS[role]
        chosen = values[packed]
        if chosen is Compression.AUTO:
            chosen = _default(values[form], codecs, compression)
        found[role] = SideFormat(format=values[form], compression=chosen)
    directory = values[sides.TOMBSTONE_DIRECTORY]
    return Sidecars(
        keys=found.get(SideRole.KEYS),
        headers=found.get(SideRole.HEADERS),
        tombstone_template=None if directory is None else tombstone_template(template, directory),
    )


def tombstone_template(source: str, directory: str) -> str:
    """Return the template of names in which `directory` stands between the topic's and the file."""
    *directories, file = source.split("/")
    own = next((place for place, each in enumerate(directories) if "{{topic}}" in each.replace(" ", "")), -1)
    return "/".join([*directories[: own + 1], directory, file])


def check_sidecars(
    values: Values, codecs: dict[OutputFormat, tuple[Compression, ...]], template: NameTemplate | None
) -> None:
    """Note what side objects cannot be as they are told."""
    if not values.are_good(sides.SIDECAR_OBJECTS, sink.FIELDS):
        return
    roles = values[sides.SIDECAR_OBJECTS]
    if roles and values.are_good(sink.LAYOUT) and values[sink.LAYOUT] not in _LAYOUTS:
        values.refuse(
            sides.SIDECAR_OBJECTS, f"are not written with output.layout={values[sink.LAYOUT]}; remove it"
        )
    for role, (field, form, packed) in _PARTS.items():
        if role not in roles:
            for option in (form, packed):
                if values.is_given(option):
                    values.refuse(option, f"means nothing without {role} in sidecars")
            continue
        if values.is_given(sink.FIELDS) and field in values[sink.FIELDS]:
            values.refuse(
                sink.FIELDS, f"has the {field}, which sidecars={role} puts beside; name it in one of both"
            )
        if values.are_good(form, packed):
            _check_codec(values, form, packed, codecs)
    _check_tombstones(values, template)


def _check_codec(
    values: Values,
    form: Option[Any],
    packed: Option[Any],
    codecs: dict[OutputFormat, tuple[Compression, ...]],
) -> None:
    known = codecs[values[form]]
    if values[packed] not in (*known, Compression.AUTO):
        values.refuse(packed, f"cannot be written in {form.name}={values[form]}; it takes {', '.join(known)}")


def _check_tombstones(values: Values, template: NameTemplate | None) -> None:
    option = sides.TOMBSTONE_DIRECTORY
    if not values.is_given(option) or not values.are_good(option, sink.NULL_VALUES):
        return
    if SideRole.KEYS not in values[sides.SIDECAR_OBJECTS]:
        values.refuse(option, "means nothing without keys in sidecars: a tombstone is nothing but its key")
    if values[sink.NULL_VALUES] is not NullValues.WRITE:
        values.refuse(option, f"means nothing with {sink.NULL_VALUES.name}={values[sink.NULL_VALUES]}")
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
