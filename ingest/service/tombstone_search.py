"""Where the tombstones of a topic's folder are: objects listed, rows counted, places proven, in a thread."""

import queue
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Final

import structlog

from headrace.conversion.archives import ArchiveDecoder
from headrace.conversion.joined import JoinedDecoder, ReadObject
from headrace.formats import DecodeOptions
from headrace.kafka.ledger_cache import LedgerCache
from headrace.model.errors import HeadraceError, ObjectError, ObjectMissing, ObjectSuperseded
from headrace.model.ledger_entry import LedgerEntry, State, sent_runs
from headrace.model.objects import ByteSource, ObjectId, RowPlace, S3Object, SideObject
from headrace.model.positions import JoinedPosition
from headrace.model.text_formatting import printable
from headrace.names.archive_names import ArchiveName, ObjectKind
from headrace.options import Settings
from headrace.options.choices import RestoreTombstones
from headrace.process.logs import RetryLog
from headrace.process.threads import start_thread
from headrace.s3 import new_s3_calls
from headrace.s3.reader import S3Source
from headrace.vendors.confluent.names import Place, TombstoneObject, ValueObject, places
from headrace.vendors.key_names import ArchiveNames
from ingest.service.service_events import ComponentProblem
from ingest.source.catalogue.effects import MARKED
from ingest.source.catalogue.tombstones import FolderPlaces, TombstonePlaces

_log = structlog.get_logger(__name__)

PROBLEM: Final = "tombstones"
"""Its name among the problems of `/status`."""

_AGAIN_SECONDS: Final = 5.0
# An object that is replaced while it is looked at is found by the next search: that is no problem yet.
_OFTEN: Final = 2
# Numbers of rows that are kept: a later search of the same folder counts only what is new.
_MAX_COUNTS: Final = 200_000
# Runs of tombstones between the rows of one object: each of them stands in the object's ledger entry.
_MAX_RUNS: Final = 1000

_Found = tuple[S3Object, ArchiveName]
# By key and ETag of a tombstone object: where its rows were merged, by key of the value object.
_Merged = dict[tuple[str, str], dict[str, tuple[RowPlace, ...]]]
# By key and ETag of a tombstone object: value objects that its rows are sent with, and which rows.
_Taken = dict[tuple[str, str], list[tuple[ObjectId, LedgerEntry, tuple[RowPlace, ...]]]]


@dataclass(frozen=True, slots=True)
class BucketCalls:
    """What a search asks for, blocking: objects by prefix, tags, bytes, what the ledger has of a folder."""

    listed: Callable[[str], Iterable[S3Object]]
    tags: Callable[[S3Object], Mapping[str, str]]
    source: Callable[[S3Object], ByteSource]
    known: Callable[[str], Iterable[tuple[ObjectId, LedgerEntry]]]


@dataclass(frozen=True, slots=True)
class _Gone:
    """A value object of which rows are in Kafka, and which is in the bucket no more; `rows` where all are."""

    object: S3Object
    name: ArchiveName
    rows: int | None


class FolderSearch:
    """Searches folders of topics; remembers what it counted."""

    def __init__(self, settings: Settings) -> None:
        restore = settings.format.restore
        assert restore is not None, "tombstones are of archives"
        self._mode = settings.joining.tombstones
        self._names = ArchiveNames(restore.layout, restore.names, restore.template)
        self._directory = f"{restore.names.tombstone_directory}{restore.names.directory_delimiter}"
        options = DecodeOptions(format=settings.format)
        self._decoder = JoinedDecoder(ArchiveDecoder(restore), options)
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._ends: OrderedDict[tuple[str, str], int | None] = OrderedDict()

    def search(self, calls: BucketCalls, folder: str) -> FolderPlaces:
        """What is in the folder, or was restored from it; blocks. Without tombstones it is one request.

        The ledger is read after the listing: what is deleted in between has its end there.
        """
        if not any(True for _ in self._named(calls, folder, f"{folder}{self._directory}")):
            return FolderPlaces(folder=folder)
        found = sorted(self._named(calls, folder, folder), key=lambda each: each[1].partition or 0)
        entries = list(calls.known(folder))
        gone = self._gone(folder, {s3_object.id.key for s3_object, _ in found}, entries)
        merged, taken = _merged(entries), _taken(entries)
        answers: list[TombstonePlaces] = []
        for partition, group in groupby(found, key=lambda each: each[1].partition):
            past = [each for each in gone if each.name.partition == partition]
            answers += self._partition(calls, list(group), past, merged, taken)
        return FolderPlaces(folder=folder, tombstones=tuple(answers))

    def _named(self, calls: BucketCalls, folder: str, prefix: str) -> Iterator[_Found]:
        """What lies in the folder; without a slash after it, other topics' names may begin like it."""
        for s3_object in calls.listed(prefix):
            name = self._names.read(s3_object.id.key).name
            if name is not None and name.folder == folder:
                yield s3_object, name

    def _gone(
        self, folder: str, listed: set[str], entries: Iterable[tuple[ObjectId, LedgerEntry]]
    ) -> list[_Gone]:
        newest: dict[str, tuple[ObjectId, LedgerEntry]] = {}
        for object_id, entry in entries:
            is_past = object_id.key not in listed and (
                entry.position is not None or entry.state is State.DONE
            )
            other = newest.get(object_id.key)
            if is_past and (other is None or other[1].updated_ms <= entry.updated_ms):
                newest[object_id.key] = object_id, entry
        found: list[_Gone] = []
        for object_id, entry in newest.values():
            name = self._names.read(object_id.key).name
            if name is not None and name.folder != folder:
                continue
            if name is not None and name.kind is ObjectKind.VALUES and not name.tombstones:
                at = entry.position if entry.state is State.DONE else None
                rows = at.row if isinstance(at, JoinedPosition) else None
                s3_object = S3Object(id=object_id, size=entry.size, last_modified_ms=entry.last_modified_ms)
                found.append(_Gone(s3_object, name, rows))
        return found

    def _partition(
        self,
        calls: BucketCalls,
        found: Sequence[_Found],
        gone: Sequence[_Gone],
        merged: _Merged,
        taken: _Taken,
    ) -> list[TombstonePlaces]:
        values = [each for each in found if each[1].kind is ObjectKind.VALUES and not each[1].tombstones]
        keys = [each for each in found if each[1].kind is ObjectKind.KEYS]
        deletions = sorted((each for each in keys if each[1].tombstones), key=lambda each: each[1].order)
        if not deletions:
            return []
        headers = {
            name.stem: SideObject(s3_object.id.key, s3_object.id.etag, s3_object.size, s3_object.version_id)
            for s3_object, name in found
            if name.kind is ObjectKind.HEADERS and name.tombstones
        }
        by_stem = {name.stem: s3_object for s3_object, name in keys if not name.tombstones}
        shared = [*(value for value, _ in values), *(each.object for each in gone)]
        in_order = tuple(sorted(shared, key=lambda each: each.id.key))
        plain = tuple(
            TombstonePlaces(
                object=s3_object,
                headers=headers.get(name.stem),
                rows=1,
                own_from=0,
                inserts={},
                values=in_order,
            )
            for s3_object, name in deletions
        )
        if self._mode is RestoreTombstones.AFTER:
            return [self._after(calls, each, taken) for each in plain]
        try:
            proven = self._proven(calls, values, deletions, by_stem, gone)
        except (ObjectMissing, ObjectSuperseded):
            raise  # it has changed since it was listed: listed again, it is another search
        except ObjectError as error:
            placed = [replace(each, unknown=_unknown(each, str(error))) for each in plain]
        else:
            keys_of = {name.offset: s3_object.id.key for s3_object, name in values}
            keys_of |= {each.name.offset: each.object.id.key for each in gone}
            placed = _bounded(
                [
                    _placed(each, proven.get(name.offset or 0), keys_of)
                    for each, (_, name) in zip(plain, deletions, strict=True)
                ]
            )
        return [self._as_merged(calls, each, merged) for each in placed]

    def _after(self, calls: BucketCalls, found: TombstonePlaces, taken: _Taken) -> TombstonePlaces:
        """All rows after all values, but for those that value objects have: `proven` was set before."""
        with_values = taken.get((found.object.id.key, found.object.id.etag), [])
        known = {value.id for value in found.values}
        own_from = _end_of(place for _, _, places_there in with_values for place in places_there)
        is_open = any(
            key not in known and each.state is not State.DONE and not _is_over(each)
            for key, each, _ in with_values
        )
        if own_from is None or is_open:
            return replace(found, unknown=_uncertain(found, [object_id for object_id, _, _ in with_values]))
        if not own_from:
            return found
        inserts = {
            key.key: places_there
            for key, each, places_there in with_values
            if key in known and not _is_over(each)
        }
        rows = max(own_from, self._rows(calls, found.object, own_from))
        return replace(found, rows=rows, own_from=own_from, inserts=inserts)

    def _rows(self, calls: BucketCalls, s3_object: S3Object, own_from: int) -> int:
        """How many rows it has; one that cannot be counted has more, and reading it says what is wrong."""
        try:
            return self._count(calls, s3_object)
        except (ObjectMissing, ObjectSuperseded):
            raise  # as in `_partition`
        except ObjectError:
            return own_from + 1

    def _as_merged(self, calls: BucketCalls, found: TombstonePlaces, merged: _Merged) -> TombstonePlaces:
        """The places that the ledger has, where it has those of all rows: they were proven before."""
        inserts = merged.get((found.object.id.key, found.object.id.etag))
        if not inserts:
            return found
        rows = sum(place.count for places_there in inserts.values() for place in places_there)
        if found.unknown is None or rows != self._count(calls, found.object):
            return found
        return replace(found, unknown=None, rows=rows, own_from=rows, inserts=inserts)

    def _proven(
        self,
        calls: BucketCalls,
        values: Sequence[_Found],
        deletions: Sequence[_Found],
        keys: dict[str, S3Object],
        gone: Sequence[_Gone],
    ) -> dict[int, tuple[Place, ...]]:
        return places(
            [
                *(self._value_object(calls, s3_object, name, keys) for s3_object, name in values),
                *(self._past_object(each) for each in gone),
            ],
            [
                TombstoneObject(start=name.offset or 0, rows=self._count(calls, s3_object))
                for s3_object, name in deletions
            ],
        )

    def _value_object(
        self, calls: BucketCalls, found: S3Object, name: ArchiveName, keys: dict[str, S3Object]
    ) -> ValueObject:
        """The object by its tags, which the sink writes if configured; else by its number of keys."""
        tags = calls.tags(found)
        end, count = tags.get("endOffset", ""), tags.get("recordCount", "")
        rows = int(count) if count.isdecimal() else self._count(calls, keys.get(name.stem, found))
        last = int(end) if end.isdecimal() else None
        self._ends[found.id.key, found.id.etag] = last
        if len(self._ends) > _MAX_COUNTS:
            self._ends.popitem(last=False)
        return ValueObject(start=name.offset or 0, rows=rows, end=last, path=found.id.key.rpartition("/")[0])

    def _past_object(self, gone: _Gone) -> ValueObject:
        """The same of what is there no more: its rows by the ledger, its end if its tags were read before."""
        object_id = gone.object.id
        if gone.rows is None:
            raise ObjectError(
                f"{object_id.url} is in the bucket no more, and the ledger does not say how many rows it had"
            )
        return ValueObject(
            start=gone.name.offset or 0,
            rows=gone.rows,
            end=self._ends.get((object_id.key, object_id.etag)),
            path=object_id.key.rpartition("/")[0],
        )

    def _count(self, calls: BucketCalls, s3_object: S3Object) -> int:
        known = self._counts.get((s3_object.id.key, s3_object.id.etag))
        if known is None:
            known = self._decoder.rows_of(ReadObject(s3_object.id.key, calls.source(s3_object)))
            self._counts[s3_object.id.key, s3_object.id.etag] = known
            if len(self._counts) > _MAX_COUNTS:
                self._counts.popitem(last=False)
        return known


def _merged(entries: Iterable[tuple[ObjectId, LedgerEntry]]) -> _Merged:
    found: _Merged = {}
    for object_id, entry in entries:
        if entry.position is not None:
            for each in entry.tombstones:
                found.setdefault((each.keys.key, each.keys.etag), {})[object_id.key] = each.places
    return found


def _taken(entries: Iterable[tuple[ObjectId, LedgerEntry]]) -> _Taken:
    """Rows of tombstone objects that are in Kafka among values, or will be as these are read on."""
    found: _Taken = {}
    for object_id, entry in entries:
        if entry.position is None:
            continue
        runs = sent_runs(entry) if _is_over(entry) else [each.places for each in entry.tombstones]
        for each, places_there in zip(entry.tombstones, runs, strict=True):
            if places_there:
                found.setdefault((each.keys.key, each.keys.etag), []).append((object_id, entry, places_there))
    return found


def _is_over(entry: LedgerEntry) -> bool:
    """Whether it has ended where its position is: no more of its tombstones are sent with it."""
    return entry.state is State.SKIPPED or entry.reason == MARKED


def _end_of(runs: Iterable[RowPlace]) -> int | None:
    """How many rows these are, from the first row of their object on; None: some between are not of them."""
    end = 0
    for run in sorted(runs, key=lambda each: each.first):
        if run.first > end:
            return None
        end = max(end, run.first + run.count)
    return end


def _placed(
    found: TombstonePlaces, proven: tuple[Place, ...] | None, keys_of: dict[int | None, str]
) -> TombstonePlaces:
    """The tombstone object with the places of its rows, or with why they are not certain."""
    if proven is None:
        return replace(found, unknown=_unknown(found, "names, tags and numbers of rows leave it open"))
    inserts, own_from = _inserts(proven, keys_of)
    return replace(found, rows=len(proven), inserts=inserts, own_from=own_from)


def _bounded(found: list[TombstonePlaces]) -> list[TombstonePlaces]:
    """The same, without places between the rows of an object that would have too many of them."""
    runs: Counter[str] = Counter()
    for each in found:
        for key, places_there in each.inserts.items():
            runs[key] += len(places_there)
    crowded = {key for key, count in runs.items() if count > _MAX_RUNS}
    why = f"more than {_MAX_RUNS} groups of them would come between the rows of one object"
    return [
        replace(each, unknown=_unknown(each, why)) if crowded & each.inserts.keys() else each
        for each in found
    ]


def _unknown(found: TombstonePlaces, why: str) -> str:
    return (
        f"{found.object.id.url}: the place of its tombstones among the values is not proven ({why}), and "
        "after all values they would delete keys that were written again. Set restore.tombstones=after and "
        "replay it to have it so."
    )


def _uncertain(found: TombstonePlaces, values: Iterable[ObjectId]) -> str:
    return (
        f"{found.object.id.url}: some of its tombstones were restored between rows of values, and the rest "
        "are not simply those after them. To have all once more, in order, replay it with --from-start, and "
        f"these: {', '.join(each.url for each in values)}"
    )


def _inserts(
    proven: Sequence[Place], keys_of: dict[int | None, str]
) -> tuple[dict[str, tuple[RowPlace, ...]], int]:
    """Runs of rows by key of the value object they are in, and the first row after all of them."""
    runs: dict[str, list[RowPlace]] = {}
    own_from = len(proven)
    for first, place in enumerate(proven):
        if place.start is None:
            own_from = min(own_from, first)
            continue
        found = runs.setdefault(keys_of[place.start], [])
        if found and found[-1].row == place.row:
            found[-1] = RowPlace(place.row, found[-1].first, found[-1].count + 1)
        else:
            found.append(RowPlace(place.row, first, 1))
    return {key: tuple(found) for key, found in runs.items()}, own_from


class TombstoneSearch:
    """Searches folders one after the other; `post` gets what was found, or that it fails. Does not block."""

    def __init__(
        self,
        settings: Settings,
        post: Callable[[FolderPlaces | ComponentProblem], None],
        *,
        cache: LedgerCache,
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._again_seconds = again_seconds
        self._post = post
        self._search = FolderSearch(settings)
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._is_closed = threading.Event()
        start_thread(self._run, name="tombstone-search")

    def request(self, folder: str) -> None:
        """Have a folder searched."""
        self._requests.put(folder)

    def close(self) -> None:
        """Search no more."""
        self._is_closed.set()
        self._requests.put(None)

    def _run(self) -> None:
        calls: BucketCalls | None = None
        retries = RetryLog(_log, "tombstone_search_failed")
        while (folder := self._requests.get()) is not None:
            failed = 0
            while not self._is_closed.is_set():
                try:
                    calls = calls or self._calls()
                    self._post(self._search.search(calls, folder))
                    if failed >= _OFTEN:
                        self._post(ComponentProblem(PROBLEM, None))
                    retries.over(folder)
                    break
                except HeadraceError as error:
                    failed += 1
                    if failed >= _OFTEN:
                        self._post(ComponentProblem(PROBLEM, self._problem(folder, error)))
                    waits = "value objects of the topic wait for it; it is tried again"
                    retries.failed(folder, error, folder=folder, detail=waits)
                    self._is_closed.wait(self._again_seconds)

    def _problem(self, folder: str, error: HeadraceError) -> str:
        return (
            f"Objects below s3://{self._settings.s3.bucket}/{printable(folder)} wait, as the places of its "
            f"tombstones cannot be searched: {error} It is tried again; allow it, or set "
            "restore.tombstones to after or ignore."
        )

    def _calls(self) -> BucketCalls:
        calls = new_s3_calls(self._settings.s3)
        return BucketCalls(
            listed=partial(calls.listed, self._settings.s3.bucket),
            tags=calls.tags,
            source=partial(S3Source, calls),
            known=self._known,
        )

    def _known(self, folder: str) -> Iterator[tuple[ObjectId, LedgerEntry]]:
        # All keys of the folder are before the first one that has the next letter in its delimiter's place.
        through = f"{folder[:-1]}{chr(ord(folder[-1]) + 1)}"
        for known in self._cache.scan(self._settings.s3.bucket, folder, through):
            if known.id.key.startswith(folder):
                yield known.id, known.entry
