"""The tools of each topic of a slot: those of a route share theirs, all share uploads and dead letters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.conversion.sink_records import SinkRecords, sink_records
from headrace.model.clock import wall_ms
from headrace.model.sink_entries import GroupingOptions
from headrace.names.field_path import read_path
from headrace.options.sink_settings import NameTimeSource, NameValues, SinkSettings
from spark.sink.batch_rotation import BatchRotation
from spark.sink.dead_letters import DeadLetters
from spark.sink.object_shape import ObjectShapes
from spark.sink.recurring_names import RecurringNames
from spark.sink.rotation import Rotation
from spark.sink.slot_uploads import SlotUploads
from spark.sink.small_files import SmallFiles
from spark.sink.task_settings import SinkTaskSettings, for_topic, grouping_for_topic, route_name

# -- What all partitions of a slot of the sink work with -----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTools:
    """What all partitions of a slot work with. `earlier` groups by options that are no longer in force."""

    settings: SinkTaskSettings
    converter: SinkRecords
    shapes: ObjectShapes
    earlier: dict[str, ObjectShapes]
    rotation: Rotation
    batches: BatchRotation
    uploads: SlotUploads
    dead_letters: DeadLetters
    recurring: RecurringNames
    small_files: SmallFiles


# -- The tools of each topic of a slot: those of a route share theirs, all share uploads and dead letters ----


class RoutedTools:
    """`earlier` are options that are no longer in force."""

    def __init__(
        self,
        earlier: Sequence[GroupingOptions],
        *,
        settings: SinkTaskSettings,
        uploads: SlotUploads,
        dead_letters: DeadLetters,
        recurring: RecurringNames,
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self._earlier = earlier
        self._settings = settings
        self._uploads = uploads
        self._dead_letters = dead_letters
        self._recurring = recurring
        self._clock = clock
        self._small_files = SmallFiles()
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
                one.hash: _earlier_shapes(grouping_for_topic(one, topic), sink) for one in self._earlier
            },
            rotation=Rotation(sink.rotation, shapes.values.names),
            batches=BatchRotation(sink.rotation),
            uploads=self._uploads,
            dead_letters=self._dead_letters,
            recurring=self._recurring,
            small_files=self._small_files,
        )


def _earlier_shapes(options: GroupingOptions, sink: SinkSettings) -> ObjectShapes:
    """What grouped records by options that are no longer in force."""
    source, _, path = options.options["file.name.timestamp.source"].partition(":")
    names = replace(
        sink.names,
        template=options.options["file.name.template"],
        time_source=NameTimeSource(source),
        value_path=read_path(path) if path else (),
        timezone=options.options["file.name.timestamp.timezone"],
        values=NameValues(options.options.get("file.name.values", NameValues.ESCAPED)),
        missing=options.options.get("file.name.missing", ""),
        round_ms=int(options.options.get("file.name.timestamp.round.ms", "0")),
    )
    sidecars = replace(
        sink.output.sidecars, tombstone_template=options.options.get("sidecars.tombstones.directory")
    )
    return ObjectShapes(replace(sink, output=replace(sink.output, sidecars=sidecars)), names)
