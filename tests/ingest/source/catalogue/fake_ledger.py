"""A ledger in memory: a log of acknowledged records, and a view that follows it at its own pace."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

from headrace.model.ledger_entry import LedgerEntry, LedgerKey, SplitKey
from headrace.model.objects import ObjectId, S3Object
from ingest.source.catalogue import Catalogue
from ingest.source.catalogue.ledger_view import UNFINISHED, DecodedEntry
from ingest.source.catalogue.pending import Phase, Suspicion
from ingest.source.planner import Planner


class FakeView:
    """A `LedgerView` over dictionaries; `apply` is what the follower does with a record."""

    def __init__(self) -> None:
        self.entries: dict[LedgerKey, LedgerEntry] = {}
        self._sorted: list[ObjectId] = []
        self.scans = 0
        self.rows = 0
        self.gets = 0

    def apply(self, key: LedgerKey, entry: LedgerEntry | None) -> None:
        """The follower read this record."""
        if entry is None:
            if self.entries.pop(key, None) is not None and isinstance(key, ObjectId):
                self._sorted.remove(key)
            return
        if key not in self.entries and isinstance(key, ObjectId):
            insort(self._sorted, key)
        self.entries[key] = entry

    def fill(self, entries: Sequence[tuple[ObjectId, LedgerEntry]]) -> None:
        """Many at once, sorted."""
        self.entries.update(entries)
        self._sorted = [key for key, _ in entries]

    def get(self, object_id: ObjectId) -> LedgerEntry | None:
        """As `LedgerView.get`."""
        self.gets += 1
        return self.entries.get(object_id)

    def scan(self, bucket: str, after_key: str | None, through_key: str | None) -> Iterator[DecodedEntry]:
        """As `LedgerView.scan`."""
        self.scans += 1
        last = "\U0010ffff"
        first = bisect_right(
            self._sorted, ObjectId(bucket, after_key or "", "" if after_key is None else last * 40)
        )
        through = last * 40 if through_key is None else through_key
        end = bisect_right(self._sorted, ObjectId(bucket, through, last * 40))
        for key in self._sorted[first:end]:
            self.rows += 1
            yield DecodedEntry(key, self.entries[key])

    def splits(self, object_id: ObjectId) -> Sequence[tuple[SplitKey, LedgerEntry]]:
        """As `LedgerView.splits`."""
        return [
            (key, entry)
            for key, entry in self.entries.items()
            if isinstance(key, SplitKey) and key.id == object_id
        ]

    def unfinished(self, after: ObjectId | None) -> Iterator[tuple[ObjectId, LedgerEntry]]:
        """As `LedgerView.unfinished`."""
        first = 0 if after is None else bisect_left(self._sorted, after)
        for key in self._sorted[first:]:
            if (after is None or key > after) and self.entries[key].state in UNFINISHED:
                yield key, self.entries[key]


class FakeLedger:
    """The topic: what was acknowledged, in order. The view lags behind until the follower catches up."""

    def __init__(self) -> None:
        self.log: list[tuple[LedgerKey, LedgerEntry | None]] = []
        self.truth: dict[LedgerKey, LedgerEntry] = {}
        self.view = FakeView()
        self._followed = 0

    def commit(self, key: LedgerKey, entry: LedgerEntry | None) -> None:
        """A transaction with this record was committed."""
        self.log.append((key, entry))
        if entry is None:
            self.truth.pop(key, None)
        else:
            self.truth[key] = entry

    def follow(self, most: int | None = None) -> list[tuple[LedgerKey, LedgerEntry | None]]:
        """Apply the next records to the view and say which."""
        end = len(self.log) if most is None else min(len(self.log), self._followed + most)
        read = self.log[self._followed : end]
        for key, entry in read:
            self.view.apply(key, entry)
        self._followed = end
        return read


def known_objects(catalogue: Catalogue, bucket: str) -> list[S3Object]:
    """Every object of the catalogue's ledger, as a replay names it."""
    return [
        S3Object(
            id=known.id,
            size=known.entry.size,
            last_modified_ms=known.entry.last_modified_ms,
            version_id=known.entry.version_id,
        )
        for known in catalogue.states.ledger.scan(bucket, None, None)
    ]


def make_suspects(planner: Planner, *ids: ObjectId) -> None:
    """Make waiting objects suspects, as three deaths of their workers would."""
    for object_id in ids:
        pending = planner._table.find(object_id)
        for part in () if pending is None else (pending, *pending.splits):
            if part.phase is Phase.WAITING and part.suspicion is Suspicion.NONE:
                part.suspicion, part.tries = Suspicion.SUSPECT, 0
                planner._table.move(part, Phase.WAITING)
