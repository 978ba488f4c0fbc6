"""What a vendor's connector is to us: the way its data go, its classes and options, and their translation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from headrace.names.archive_names import LayoutName
from headrace.options.value_types import Form, FormError

if TYPE_CHECKING:
    from headrace.options.vendor_translation import Translation


AIVEN_SOURCE: Final = "io.aiven.kafka.connect.s3.source.S3SourceConnector"
AIVEN_SOURCES: Final = (AIVEN_SOURCE, "io.aiven.kafka.connect.s3.S3SourceConnector", "S3SourceConnector")
SOURCE_CLASS: Final = "HeadraceSource"
SOURCE_CLASSES: Final = (SOURCE_CLASS, *AIVEN_SOURCES)
SINK_CLASS: Final = "HeadraceSink"
CLASSES: Final = (*SOURCE_CLASSES, SINK_CLASS)
"""Our own classes, and those that mean one of them."""
OTHER_SINKS: Final = (
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "io.confluent.connect.s3.S3SinkConnector",
    "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
)
"""The sinks whose configurations `headrace.vendors` translates."""
CONFLUENT_SOURCE: Final = "io.confluent.connect.s3.source.S3SourceConnector"
LENSES_SOURCE: Final = "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector"
OTHER_SOURCES: Final = (CONFLUENT_SOURCE, LENSES_SOURCE)
"""The sources whose configurations it translates; Aiven's has our own options."""
NAMED: Final = ("HeadraceSource", "HeadraceSink", AIVEN_SOURCE, *OTHER_SOURCES, *OTHER_SINKS)
SINK_CLASSES: Final = (SINK_CLASS, *OTHER_SINKS)


class Direction(StrEnum):
    """Which way the data goes."""

    SOURCE = "source"
    SINK = "sink"


WAYS: Final[Mapping[str, Direction]] = {
    **dict.fromkeys((*SOURCE_CLASSES, *OTHER_SOURCES), Direction.SOURCE),
    **dict.fromkeys(SINK_CLASSES, Direction.SINK),
}
"""The classes that run here, each with the way its data go."""
_TO_ARCHIVE: Final = frozenset({"topics", "topics.regex"})


def direction_of(named: str, options: Iterable[str]) -> Direction:
    """Which way the data goes: by the class, else by whether these options name topics to archive.

    `named` is a whole name, or none that is known; `options` are names under which options are known.
    """
    way = WAYS.get(named.strip())
    if way is not None:
        return way
    return Direction.SOURCE if _TO_ARCHIVE.isdisjoint(options) else Direction.SINK


def _direction(text: str) -> Direction:
    name = text.strip()
    if name in SOURCE_CLASSES:
        return Direction.SOURCE
    if name == SINK_CLASS:
        return Direction.SINK
    if name in OTHER_SINKS:
        # Those that run are translated before: headrace.vendors.
        raise FormError(
            f"configurations of this sink do not run here yet: set {SINK_CLASS} and Headrace's own options "
            "(docs/sink.md)"
        )
    if name in OTHER_SOURCES:
        raise FormError(
            f"configurations of this source do not run here yet: set {SOURCE_CLASS} and Headrace's own "
            "options (docs/restore.md)"
        )
    raise FormError


CONNECTOR: Final = Form(
    kind="CLASS",
    expected=f"{', '.join(NAMED)}, or absent",
    parse=_direction,
    values=CLASSES,
)


class Fate(StrEnum):
    """What becomes of an option of another vendor."""

    KEPT = "kept"
    CHANGED = "changed"
    NEEDLESS = "needless"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorOption:
    """One option, or a family of them where `name` ends with `*`.

    `note` says which option of ours has its meaning, how that differs, why nothing depends on it, or what to
    write instead. Options without a meaning here are `NEEDLESS` and accepted with one warning for all.
    """

    name: str
    fate: Fate
    note: str

    def matches(self, option: str) -> bool:
        """Whether a given option is this one, or one of this family."""
        if self.name.endswith("*"):
            return option.startswith(self.name[:-1])
        return option == self.name


def kept(name: str, note: str) -> VendorOption:
    """A row of an option that means the same here."""
    return VendorOption(name=name, fate=Fate.KEPT, note=note)


def changed(name: str, note: str) -> VendorOption:
    """A row of one whose meaning differs here."""
    return VendorOption(name=name, fate=Fate.CHANGED, note=note)


def needless(name: str, note: str) -> VendorOption:
    """A row of one that nothing depends on here."""
    return VendorOption(name=name, fate=Fate.NEEDLESS, note=note)


def refused(name: str, note: str) -> VendorOption:
    """A row of one that is an error here."""
    return VendorOption(name=name, fate=Fate.REFUSED, note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """`name` is what its users call it; `translate` reads its options and writes those of `own_class`."""

    name: str
    layout: LayoutName
    classes: tuple[str, ...]
    options: tuple[VendorOption, ...]
    translate: "Callable[[Translation], None]"
    own_class: str = SINK_CLASS

    @property
    def is_sink(self) -> bool:
        """Whether it archives topics; otherwise it brings objects to Kafka."""
        return self.own_class == SINK_CLASS

    def option(self, name: str) -> VendorOption | None:
        """The row of an option, None where it has none of this name."""
        return next((each for each in self.options if each.matches(name)), None)
