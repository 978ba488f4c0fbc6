"""The tools of each topic of a slot: those of a route share theirs, all share uploads and dead letters.

A notice that objects are small says which option makes them larger.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.conversion.sink_records import SinkRecords, sink_records
from headrace.model.clock import wall_ms
from headrace.model.sink_entries import GroupingOptions
from headrace.model.text_formatting import bytes_text
from headrace.options.sink_settings import BufferSettings, SinkSettings
from spark.sink.bad_records import DeadLetters
from spark.sink.grouping_options import earlier_converters, earlier_sink, grouping_for_topic, route_name
from spark.sink.object_keys import RecurringNames
from spark.sink.object_shape import ObjectShapes
from spark.sink.partition_offsets import MAX_ENTRIES
from spark.sink.rotation import BatchRotation, RotateReason, Rotation
from spark.sink.sink_work import SinkTaskSettings, for_topic
from spark.sink.slot_uploads import SlotUploads

# S3 and what reads it pay for each object; below this, requests cost more than bytes.
_SMALL_BYTES: Final = 1_048_576
# Objects that are judged together, so that a quiet hour or a restart is no reason.
_SAMPLE: Final = 100
# A hint does not come more often than this.
_EVERY_MS: Final = 3_600_000

_REMEDIES: Final = {
    RotateReason.RECORDS: "raise rotate.records",
    RotateReason.BYTES: "raise rotate.bytes",
    RotateReason.AGE: "raise rotate.age.ms",
    RotateReason.SPAN: "raise rotate.span.ms",
    RotateReason.SCHEDULE: "raise rotate.schedule.ms",
    RotateReason.NAME: "write a coarser date into file.name.template",
    RotateReason.MAX_AGE: "raise open.object.max.age.ms",
    RotateReason.SCHEMA: "set schema.compatibility, so that a change of schema closes no object",
    RotateReason.GROUP: "set rotate.on.group.change=false",
    RotateReason.OPEN_OBJECTS: "raise max.open.files, or group by a field with fewer values",
}


class SmallFiles:
    """Counts closed objects; by design small ones (of single keys, at a stop) do not count."""

    def __init__(self) -> None:
        self._reasons: Counter[RotateReason] = Counter()
        self._bytes = 0
        self._quiet_until_ms = 0

    def add(self, reason: RotateReason, size: int, now_ms: int) -> str | None:
        """A sentence for a warning when the last hundred objects are small on average; one an hour."""
        if reason not in _REMEDIES:
            return None
        self._reasons[reason] += 1
        self._bytes += size
        count = self._reasons.total()
        if count < _SAMPLE:
            return None
        mean, usual = self._bytes // count, self._reasons.most_common(1)[0][0]
        self._reasons.clear()
        self._bytes = 0
        if mean >= _SMALL_BYTES or now_ms < self._quiet_until_ms:
            return None
        self._quiet_until_ms = now_ms + _EVERY_MS
        return f"objects have {bytes_text(mean)} on average, and most close by {usual}: {_REMEDIES[usual]}"


class EarlyCloses:
    """Objects that are closed though no trigger of theirs has fired: one sentence an hour."""

    def __init__(self) -> None:
        self._quiet_until_ms = 0

    def of(self, buffer: BufferSettings, entries: int, now_ms: int) -> str | None:
        """A sentence for a warning, where one is due; `entries` are the partition's in the ledger."""
        if now_ms < self._quiet_until_ms:
            return None
        self._quiet_until_ms = now_ms + _EVERY_MS
        if entries > MAX_ENTRIES:
            return (
                "an open object holds back as many dead letters as its partition's checkpoint can list, and "
                "objects close before their triggers: see what makes so many records bad"
            )
        return (
            f"more than {buffer.max_open_objects:,} objects are open in a slot (max.open.files), and the "
            "oldest close before their triggers, which makes small ones: raise it where memory allows (30 KB "
            "each), have fewer partitions in a slot, or names of fewer values"
        )


# -- What all partitions of a slot of the sink work with -----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierGroups:
    """What groups records by options that are no longer in force.

    `converter` reads them for it; None: they are read as they are now.
    """

    shapes: ObjectShapes
    converter: SinkRecords | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTools:
    """What all partitions of a slot work with. `earlier` groups by options that are no longer in force."""

    settings: SinkTaskSettings
    converter: SinkRecords
    shapes: ObjectShapes
    earlier: dict[str, EarlierGroups]
    rotation: Rotation
    batches: BatchRotation
    uploads: SlotUploads
    dead_letters: DeadLetters
    recurring: RecurringNames
    small_files: SmallFiles
    early_closes: EarlyCloses
    beat: Callable[[], None]
    """Called now and then while records are written: a fetch may fill thousands of objects."""


# -- The tools of each topic of a slot: those of a route share theirs, all share uploads and dead letters ----


class RoutedTools:
    """`earlier` are options that are no longer in force. `beat` as in `SlotTools`."""

    def __init__(
        self,
        earlier: Sequence[GroupingOptions],
        *,
        settings: SinkTaskSettings,
        uploads: SlotUploads,
        dead_letters: DeadLetters,
        recurring: RecurringNames,
        clock: Callable[[], int] = wall_ms,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._earlier = earlier
        self._beat = beat
        self._settings = settings
        self._uploads = uploads
        self._dead_letters = dead_letters
        self._recurring = recurring
        self._clock = clock
        self._small_files, self._early_closes = SmallFiles(), EarlyCloses()
        self._known: dict[tuple[str | None, ...], SlotTools] = {}

    def for_topic(self, topic: str) -> SlotTools:
        """The tools of the partitions of a topic."""
        route = self._settings.sink.route(topic)
        name = None if route is None else route.name
        routes = (name, *(route_name(one, topic) for one in self._earlier))
        found = self._known.get(routes)
        if found is None:
            found = self._known[routes] = self._new(topic)
        return found

    def _new(self, topic: str) -> SlotTools:
        settings = for_topic(self._settings, topic)
        sink = settings.sink
        shapes = ObjectShapes(sink)
        return SlotTools(
            settings=settings,
            converter=sink_records(sink, self._clock),
            shapes=shapes,
            earlier={
                one.hash: _earlier_groups(grouping_for_topic(one, topic), sink, self._clock)
                for one in self._earlier
            },
            rotation=Rotation(sink.rotation, shapes.values.names),
            batches=BatchRotation(sink.rotation),
            uploads=self._uploads,
            dead_letters=self._dead_letters,
            recurring=self._recurring,
            small_files=self._small_files,
            early_closes=self._early_closes,
            beat=self._beat,
        )


def _earlier_groups(options: GroupingOptions, sink: SinkSettings, clock: Callable[[], int]) -> EarlierGroups:
    """What grouped records by options that are no longer in force."""
    was = earlier_sink(options, sink)
    converters = earlier_converters(options, was)
    is_read = converters == sink.converters
    converter = None if is_read else sink_records(replace(sink, converters=converters), clock)
    # What has no name now may have had one.
    return EarlierGroups(shapes=ObjectShapes(was, checks_names=False), converter=converter)
