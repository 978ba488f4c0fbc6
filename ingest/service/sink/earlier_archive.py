"""Where Lenses' sink has stopped, by its own locks: asked for once for each partition that is new to us."""

from collections.abc import Callable, Collection, Iterable
from functools import cache

from headrace.kafka.topic_survey import SurveyedPartition
from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import TopicPartition, partition_key
from headrace.options import Settings
from headrace.vendors.lenses.index_files import IndexPlace
from ingest.service.sink.lenses_index import IndexedOffsets, LensesIndex, new_lenses_index
from ingest.sink import EarlierArchive
from spark.sink.names import ObjectNames, lenses_group


class EarlierArchives:
    """What another sink's files say of partitions; for one thread, and blocks.

    `known` are the keys of the ledger: a partition with a checkpoint needs nothing of another's.
    """

    def __init__(
        self,
        settings: Settings,
        known: Callable[[], Collection[ControlKey]],
        *,
        new_index: Callable[[str], LensesIndex] | None = None,
    ) -> None:
        self._settings = settings
        self._known = known
        self._index = cache(new_index or self._new_index)
        self._found: dict[TopicPartition, EarlierArchive | None] = {}

    def of(self, partitions: Iterable[SurveyedPartition]) -> dict[TopicPartition, EarlierArchive]:
        """What is found of each of them that has something. A problem is asked for again."""
        sink = self._settings.sink
        if sink is None or sink.takeover_indexes is None:
            return {}
        places = {TopicPartition(one.topic, one.partition): one for one in partitions}
        if new := places.keys() - self._found.keys():
            known = self._known()
            for place in sorted(new):
                is_known = partition_key(place) in known
                self._found[place] = None if is_known else self._read(places[place], sink.takeover_indexes)
        given = {place: found for place in places if (found := self._found[place]) is not None}
        for place, found in given.items():
            if found.problem is not None:
                del self._found[place]
        return given

    def _read(self, one: SurveyedPartition, root: str) -> EarlierArchive:
        settings = self._settings
        assert settings.sink is not None
        route = settings.sink.route(one.topic)
        bucket, names = (
            (settings.s3.bucket, settings.sink.names) if route is None else (route.bucket, route.sink.names)
        )
        place = IndexPlace(root=root, connector=settings.name, topic=one.topic, partition=one.partition)
        try:
            offsets = self._index(bucket).offsets(place)
        except HeadraceError as error:
            return EarlierArchive(problem=str(error))
        return _earlier(one, offsets, ObjectNames(names, ""))

    def _new_index(self, bucket: str) -> LensesIndex:
        return new_lenses_index(self._settings.s3, bucket)


def _earlier(one: SurveyedPartition, offsets: IndexedOffsets, names: ObjectNames) -> EarlierArchive:
    """The locks in our words: the next offset, and how far groups are beyond."""
    committed = [] if offsets.committed is None else [offsets.committed]
    if not names.grouping:
        # One group has all records: its lock says what the partition's says, or a little more.
        committed += [last for _, last in offsets.groups]
        return EarlierArchive(offset=max(committed) + 1 if committed else None)
    offset = max(committed) + 1 if committed else None
    done: list[tuple[str, int]] = []
    for values, last in offsets.groups:
        if last < max(offset or 0, one.group_offset or 0):
            continue
        group = lenses_group(names, values)
        if group is None:
            shown = ", ".join(f"{name}={value}" for name, value in values)
            return EarlierArchive(
                problem=f"Lenses' sink has archived {one.topic}-{one.partition} up to offset {last} for "
                f"{shown}, by which this one does not group: begin with the PARTITIONBY of before, or set "
                "takeover.indexes=none to begin at the group's offsets."
            )
        done.append((group, last))
    return EarlierArchive(offset=offset, done=tuple(done))
