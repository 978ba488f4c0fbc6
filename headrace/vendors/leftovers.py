"""The lines of a configuration that decide nothing: Connect's own, other vendors', in a source a sink's."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options import client_names
from headrace.options.choices import InputLayout
from headrace.options.declarations import reading_options, record_options, restore_options
from headrace.options.given import canonical, is_needless_in_source
from headrace.options.merge import SPELLINGS, Foreign, is_known
from headrace.options.secret import is_secret_name
from headrace.options.suggestions import suggested
from headrace.options.vendor import AIVEN_SOURCES, Direction, Vendor, direction_of
from headrace.options.worker_file import TOPIC_CREATION
from headrace.vendors.connect.options import CONNECT_OPTIONS, needless_of_converter


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Of Connect itself, or often left over from examples; those that Connect reads have no counterpart here.
_NAMES: Final = _names(
    """
    tasks.max.enforce connector.plugin.version task.class plugin.discovery plugin.path
    schema.enable schemas.enable auto.offset.reset enable.auto.commit client.id group.id topic.creation.enable
    topic.creation.groups transaction.boundary exactly.once.source.support offset.flush.timeout.ms
    metadata.max.age.ms max.request.size
    """
)
_PREFIXES: Final = (
    "internal.key.converter",
    "internal.value.converter",
    "offset.storage.",
    "config.storage.",
    "config.providers",
    "status.storage.",
    "rest.",
    "avro.converter.",
    "producer.",
    "consumer.",
    "admin.",
)
_OVERRIDES: Final = ("producer.override.", "consumer.override.", "admin.override.")
# Names of these groups are of Connect as much as of any connector.
_COMMON: Final = _names(
    """
    topics topic schema schemas key value header errors config name max connector tasks transaction offsets
    log state http format
    """
)
_OF_CLIENTS: Final = frozenset().union(
    *client_names.KNOWN.values(), *client_names.RENAMED.values(), client_names.WITHOUT_COUNTERPART
)
CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


def is_leftover(option: str, own: Vendor | None, vendors: tuple[Vendor, ...]) -> bool:
    """Whether a line decides nothing in a connector whose options are `own`'s, and ours."""
    if option.startswith(_OVERRIDES):
        return option.split(".", 2)[2] in client_names.NEEDLESS | client_names.TUNING
    if is_known(option):
        return False
    if option in _NAMES or option in _OF_CLIENTS or option.startswith(_PREFIXES):
        return True
    # What signs is never passed over, whichever sink calls it so.
    is_of_others = any(each is not own and each.option(option) is not None for each in vendors)
    if is_of_others and not is_secret_name(option) and not option.startswith("aws."):
        return True
    names = () if own is None else names_of(own)
    if suggested(option, (*SPELLINGS, *names)) is not None:
        return False
    return "." not in option or option.partition(".")[0] not in _groups(names)


def is_leftover_of_a_source(
    option: str,
    text: str,
    configuration: Mapping[str, str],
    vendors: tuple[Vendor, ...],
    own: Vendor | None = None,
) -> bool:
    """The same for a source, whose converters write: what they write is decided by their own options."""
    if option.startswith(TOPIC_CREATION):
        return not is_known(option)
    if any(each.matches(option) for each in CONNECT_OPTIONS if option.startswith(CONVERTERS)):
        part = next(name for name in CONVERTERS if option.startswith(name))
        suffix = option.removeprefix(f"{part}.")
        if is_known(option) or suffix == option:
            return False
        named = configuration.get(part, "").strip()
        return needless_of_converter(named, suffix, text, writes=True) is not None
    return is_leftover(option, own, vendors)


def names_of(vendor: Vendor) -> tuple[str, ...]:
    """The names of a maker's options, without families."""
    return tuple(row.name for row in vendor.options if not row.name.endswith("*"))


def _groups(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in (*SPELLINGS, *names)) - _COMMON


def foreign_to(
    vendor: Vendor | None, configuration: Mapping[str, str], vendors: tuple[Vendor, ...]
) -> Foreign:
    """Return what else a configuration may hold: of another vendor's connector, or for a sink alone."""
    found = _of_others(vendor, configuration, vendors)
    way = direction_of(configuration.get("connector.class", ""), map(canonical, configuration))
    return _of_source(found) if way is Direction.SOURCE else found


# What S3's own tools, other connectors, and Confluent Cloud call options of Confluent's.
_OF_CONFLUENT: Final = {
    "s3.endpoint": "store.url",
    "s3.endpoint.url": "store.url",
    "s3.url": "store.url",
    "s3.path.style.access": "s3.path.style.access.enabled",
    "s3.force.path.style": "s3.path.style.access.enabled",
    "s3.pathstyle.access": "s3.path.style.access.enabled",
    "s3.prefix": "topics.dir",
    "s3.bucket.prefix": "topics.dir",
    "s3.bucket": "s3.bucket.name",
    "s3.compression.codec": "s3.compression.type",
    "s3.encryption.algorithm": "s3.ssea.name",
    "s3.sse.algorithm": "s3.ssea.name",
    "s3.sse.name": "s3.ssea.name",
    "s3.kms.key.id": "s3.sse.kms.key.id",
}
_MEANT: Final = {
    (LayoutName.CONFLUENT, Direction.SINK): {
        **_OF_CONFLUENT,
        "input.data.format": "value.converter",
        "input.key.format": "key.converter",
        "output.data.format": "format.class",
    },
    (LayoutName.CONFLUENT, Direction.SOURCE): {
        **_OF_CONFLUENT,
        "input.data.format": "format.class",
        "output.data.format": "value.converter",
    },
    (LayoutName.AIVEN, Direction.SINK): {"aws.s3.bucket": "aws.s3.bucket.name"},
}


def _meant_of(vendor: Vendor) -> Mapping[str, str]:
    """By the names that people take for options of a connector, those that it has."""
    way = Direction.SINK if vendor.is_sink else Direction.SOURCE
    meant = _MEANT.get((vendor.layout, way), {})
    return {name: own for name, own in meant.items() if vendor.option(own) is not None}


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
        return Foreign(owner=vendor.name, names=names_of(vendor), meant=_meant_of(vendor))
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
