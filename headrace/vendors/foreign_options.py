"""What a configuration may hold that decides nothing in its connector, of others or of sinks alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from headrace.options.choices import InputLayout
from headrace.options.declarations import reading_options, record_options, restore_options
from headrace.options.given import canonical
from headrace.options.merge import Foreign
from headrace.options.parsed_options import is_needless_in_source
from headrace.options.vendor import AIVEN_SOURCES, Direction, Vendor, direction_of
from headrace.vendors.leftovers import CONVERTERS, is_leftover_of_a_source, names_of


def foreign_to(
    vendor: Vendor | None, configuration: Mapping[str, str], vendors: tuple[Vendor, ...]
) -> Foreign:
    """Return what else a configuration may hold: of another vendor's connector, or for a sink alone."""
    found = _of_others(vendor, configuration, vendors)
    way = direction_of(configuration.get("connector.class", ""), map(canonical, configuration))
    return _of_source(found) if way is Direction.SOURCE else found


# Options of Aiven's sink by their own names: without a layout its source declares them and reads none.
_OF_AIVENS_ROWS: Final = frozenset(
    option.name
    for option in (
        restore_options.FORMAT_ENVELOPE,
        restore_options.CSV_FIELDS,
        restore_options.CSV_ENCODING,
    )
)


def _has_layout(configuration: Mapping[str, str]) -> bool:
    layout = configuration.get(restore_options.LAYOUT.name, "none")
    return layout.strip().lower() != InputLayout.NONE


def _of_others(
    vendor: Vendor | None, configuration: Mapping[str, str], vendors: tuple[Vendor, ...]
) -> Foreign:
    if vendor is not None:
        return Foreign(owner=vendor.name, names=names_of(vendor))
    if configuration.get("connector.class", "").strip() not in AIVEN_SOURCES:
        return Foreign()

    needless = frozenset() if _has_layout(configuration) else _OF_AIVENS_ROWS

    def decides_nothing(option: str, text: str) -> bool:
        return option in needless or is_leftover_of_a_source(option, text, configuration, vendors)

    trimmed = frozenset({reading_options.PREFIX.name, record_options.FILE_NAME_TEMPLATE.name})
    # As tools that fill in defaults write them out, and translated vendors' connectors may have them.
    may_be_empty = frozenset({record_options.DLQ_TOPIC.name, *CONVERTERS})
    return Foreign(
        owner="Aiven's S3 source",
        is_leftover=decides_nothing,
        trimmed=trimmed,
        may_be_empty=may_be_empty,
    )


def _of_source(foreign: Foreign) -> Foreign:
    """The same, with what a sink alone has a meaning for."""

    def decides_nothing(option: str, text: str) -> bool:
        return is_needless_in_source(option) or foreign.is_leftover(option, text)

    return replace(foreign, is_leftover=decides_nothing)
