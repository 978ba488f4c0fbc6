"""A whole archive through the driver's own decisions and the tasks' own decoding, without any service."""

from typing import Final

from headrace.conversion.archives import ArchiveDecoder
from headrace.conversion.joined import JoinedDecoder, MergedTombstones, ReadObject
from headrace.formats import DecodeOptions
from headrace.model.columns import RowBatch
from headrace.model.errors import ObjectError
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import S3Object, SideObject
from headrace.model.slot_protocol import Split
from headrace.options import Settings
from ingest.service.tombstone_search import BucketCalls, FolderSearch
from ingest.source.object_selection import object_filter_of
from ingest.source.planner import BatchLimits
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.vendors.archive import Archive
from tests.ingest.source.catalogue.desk import NOW, Desk, listed, page
from tests.support import kafka

# A moment after all records; the time of producing is never before it.
PRODUCED_MS: Final = 10**14
_OLD: Final = NOW - 10**8
_TURNS: Final = 1000


class DrivenRestore:
    """Lists the archive, and does what the planner says until nothing is left.

    `rows` are the records by topic and partition, `ends` the entry of each object.
    """

    def __init__(self, bucket: Archive, settings: Settings) -> None:
        assert settings.format.restore is not None
        self._bucket = bucket
        self._settings = settings
        self._decoder = ArchiveDecoder(settings.format.restore)
        self._search = FolderSearch(settings)
        limits = BatchLimits(slots=1, max_objects=1, ordering=settings.routing.ordering)
        self._desk = Desk(intake=object_filter_of(settings), joining=settings.joining, limits=limits)
        self.rows: dict[tuple[str, int], list[kafka.Record]] = {}

    def run(self) -> None:
        """Everything, in the order that the planner gives."""
        desk = self._desk
        desk.observe(page(*self._listed("")))
        for _ in range(_TURNS):
            for folder in desk.tick().searches:
                desk.catalogue.on_tombstones(self._search.search(self._calls(), folder))
            plan = desk.plan()
            if desk.works[plan]:
                self._work(plan, desk.works[plan][0])
            elif desk.catalogue.is_idle:
                return
        raise AssertionError(f"not done after {_TURNS} turns")

    @property
    def ends(self) -> dict[str, LedgerEntry]:
        """By key, what the ledger says in the end."""
        return {key: entry for key in self._bucket.objects if (entry := self._desk.entry(key)) is not None}

    def _work(self, plan: int, work: Split) -> None:
        records = self.rows.setdefault((work.route.topic, work.route.partition or 0), [])
        try:
            count = 0
            for batch in self._decoded(work):
                records += [_record(batch, row) for row in range(len(batch))]
                count += len(batch)
        except ObjectError as error:
            self._desk.fail(plan, type(error).__name__, reason=getattr(error, "reason", None))
            return
        done = LedgerEntry(
            state=State.DONE, records=count, size=10, sides=work.sides, tombstones=work.tombstones
        )
        self._desk.complete_with(plan, done)

    def _decoded(self, work: Split) -> list[RowBatch]:
        key = work.object.id.key
        options = DecodeOptions(format=self._settings.format, topic="restored")
        own = self._source(key)
        if not (work.sides or work.tombstones or work.first_row):
            return list(self._decoder.decode(own, None, key=key, options=options, begin=None, end=None))
        merged = [
            MergedTombstones(
                self._part(each.keys), None if each.headers is None else self._part(each.headers), each.places
            )
            for each in work.tombstones
        ]
        sides = [self._part(side) for side in work.sides]
        joined = JoinedDecoder(self._decoder, options)
        return list(joined.decode(ReadObject(key, own), sides, merged, None, first_row=work.first_row))

    def _part(self, side: SideObject) -> ReadObject:
        return ReadObject(side.key, self._source(side.key))

    def _source(self, key: str) -> MemorySource:
        return MemorySource(self._bucket.objects[key], name=f"s3://archive/{key}")

    def _calls(self) -> BucketCalls:
        return BucketCalls(
            listed=self._listed,
            tags=lambda seen: self._bucket.tags.get(seen.id.key, {}),
            source=lambda seen: self._source(seen.id.key),
            known=lambda _folder: (),
        )

    def _listed(self, prefix: str) -> list[S3Object]:
        keys = sorted(key for key in self._bucket.objects if key.startswith(prefix))
        objects = self._bucket.objects
        return [listed(key, size=len(objects[key]), last_modified_ms=_OLD) for key in keys]


def _record(batch: RowBatch, row: int) -> kafka.Record:
    stamp = -1 if batch.timestamps_ms is None else int(batch.timestamps_ms[row])
    return kafka.Record(
        partition=0,
        offset=row,
        key=None if batch.keys is None else batch.keys.get(row),
        value=batch.values.get(row),
        headers=() if batch.headers is None else batch.headers[row],
        timestamp_ms=PRODUCED_MS if stamp < 0 else stamp,
    )
