"""A catalogue of an archive with tombstones, and the words for what a search of its folder finds."""

from typing import Any, Final

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import RowPlace
from headrace.model.positions import BytePosition, JoinedPosition
from headrace.options.choices import Ordering
from ingest.source.catalogue.tombstones import FolderPlaces, TombstonePlaces
from ingest.source.object_selection import object_filter_of
from ingest.source.planner import BatchLimits
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import NOW, Desk, listed, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

FOLDER: Final = "topics/t/"
OLD: Final = NOW - 1_000_000


def value_key(start: int, side: str = "") -> str:
    """A value object, or that of its keys (`.keys`)."""
    return f"{FOLDER}partition=0/t+0+{start:010}{side}.json"


def tombstone_key(start: int) -> str:
    """An object of tombstones."""
    return f"{FOLDER}tombstone/t+0+{start:010}.keys.json"


def tombstone_desk(ledger: FakeLedger | None = None, mode: str = "proven", **options: Any) -> "TombstoneDesk":
    """The restore of an archive, with `restore.tombstones` as `mode`."""
    loaded = load_with(
        {
            "topic": None,
            "file.name.template": None,
            "input.layout": "confluent",
            "restore.tombstones": mode,
            "restore.sidecars.wait.ms": "1000",
        }
    )
    limits = BatchLimits(slots=2, ordering=Ordering.PARTITION)
    return TombstoneDesk(
        ledger=ledger, intake=object_filter_of(loaded), joining=loaded.joining, limits=limits, **options
    )


class TombstoneDesk(Desk):
    """Gathers what was asked to be searched."""

    searches: tuple[str, ...] = ()

    def show(self, *keys: str, listing_id: int = 1) -> None:
        """A listing of an old archive."""
        self.observe(
            page(*(listed(key, last_modified_ms=OLD) for key in sorted(keys)), listing_id=listing_id)
        )
        self.turn()

    def turn(self, after_ms: int = 0) -> None:
        """One turn of the service's loop."""
        self.searches += self.tick(after_ms).searches

    def answer(self, *found: TombstonePlaces) -> None:
        """The search is over."""
        assert self.searches == (FOLDER,)
        self.searches = ()
        self.catalogue.on_tombstones(FolderPlaces(folder=FOLDER, tombstones=found))
        self.turn()

    def read(self) -> list[tuple[str, int, tuple[tuple[str, tuple[RowPlace, ...]], ...]]]:
        """What a slot gets now, with what is merged; it ends at once."""
        plan = self.plan()
        found = []
        for work in self.works[plan]:
            merged = tuple((each.keys.key, each.places) for each in work.tombstones)
            found.append((work.object.id.key, work.first_row, merged))
            sent = sum(place.count for each in work.tombstones for place in each.places)
            done = LedgerEntry(
                state=State.DONE,
                records=3,
                position=JoinedPosition(BytePosition(9), work.first_row + 3, sent),
                sides=work.sides,
                tombstones=work.tombstones,
                size=10,
            )
            self.commit(plan, work.object.id, done)
        self.finish(plan)
        self.turn()
        return found

    def reason(self, key: str) -> str | None:
        """How the object ended."""
        entry = self.entry(key)
        return None if entry is None else entry.reason or entry.state.value


def placed(
    start: int, inserts: dict[str, tuple[RowPlace, ...]], *values: int, rows: int = 1, own_from: int = 1
) -> TombstonePlaces:
    """What a search says of an object of tombstones: rows by value object, and those after all values."""
    return TombstonePlaces(
        object=listed(tombstone_key(start), last_modified_ms=OLD),
        headers=None,
        rows=rows,
        own_from=own_from,
        inserts=inserts,
        values=tuple(listed(value_key(each), last_modified_ms=OLD) for each in values),
    )


def values_with_keys(*starts: int) -> list[str]:
    """Value objects and those of their keys."""
    return [value_key(start, side) for start in starts for side in ("", ".keys")]
