"""`restore.tombstones` is another one after a restart: no tombstone is sent twice, none is left out."""

from collections.abc import Iterator
from typing import Final

import pytest

from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId, S3Object
from headrace.model.positions import BytePosition, JoinedPosition
from headrace.model.slot_protocol import Failure, Split
from headrace.options.choices import Ordering
from ingest.service.tombstone_search import BucketCalls, FolderSearch
from ingest.source.catalogue.object_commands import Replay, Selection
from ingest.source.object_selection import object_filter_of
from ingest.source.planner import BatchLimits
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with
from tests.ingest.source.catalogue.desk import NOW, Desk, listed, object_id, page
from tests.ingest.source.catalogue.fake_ledger import FakeLedger

_OLD: Final = NOW - 1_000_000
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_A, _B, _C = (f"topics/t/partition=0/t+0+{start:010}.json" for start in (0, 3, 6))
_T, _LAST = (f"topics/t/tombstone/t+0+{start:010}.keys.json" for start in (2, 8))
# A tombstone between the two rows of a value object, of another topic.
_D, _U = "topics/u/partition=0/u+0+0000000000.json", "topics/u/tombstone/u+0+0000000001.keys.json"
# Two rows of a tombstone object that are before the rows of two value objects, and one that is after all.
_ROWS: Final = {_A: ["a0", "a1"], _B: ["b3", "b4"], _C: ["c6", "c7"], _T: ["t2", "t5"], _LAST: ["t8"]}
_BETWEEN: Final = {_D: ["d0", "d2"], _U: ["u1"]}
_TAGS: Final = {
    key: {"startOffset": rows[0][1:], "endOffset": rows[-1][1:], "recordCount": "2"}
    for key, rows in (_ROWS | _BETWEEN).items()
    if key in {_A, _B, _C, _D}
}
_IN_ORDER: Final = ["a0", "a1", "t2", "b3", "b4", "t5", "c6", "c7", "t8"]
_KEYS: Final = tuple(key.replace(".json", ".keys.json") for key in (_A, _B, _C))
_BUCKET: Final = (*_ROWS, *_KEYS)


class _Restore(Desk):
    """A process with what searches folders. Its slots append rows to `kafka`, as the decoder orders them."""

    def __init__(
        self,
        ledger: FakeLedger,
        kafka: list[str],
        mode: str,
        *,
        bucket: tuple[str, ...] = _BUCKET,
    ) -> None:
        settings = load_with(
            {
                "topic": None,
                "file.name.template": None,
                "input.layout": "confluent",
                "restore.tombstones": mode,
                "restore.sidecars.wait.ms": "1000",
            }
        )
        super().__init__(
            ledger=ledger,
            intake=object_filter_of(settings),
            joining=settings.joining,
            limits=BatchLimits(slots=2, ordering=Ordering.PARTITION),
            retention_ms=_DAY_MS,
        )
        self.bucket = bucket
        self._kafka = kafka
        self._search = FolderSearch(settings)
        self._listings = 0
        self.list_all()

    def list_all(self) -> None:
        """A full listing, and what follows from it."""
        self._listings += 1
        self.observe(page(*self._listed(""), listing_id=self._listings))
        self._turn()

    def work(self, at_most: int = 100, *, gone: str | None = None) -> None:
        """Work until nothing is left, or so many rows were sent; `gone` has been deleted from the bucket."""
        for _ in range(8):
            if at_most <= 0:
                return
            plan = self.plan()
            failures = []
            for work in self.works[plan]:
                if work.object.id.key == gone:
                    failures.append(Failure(work=work, kind="ObjectMissing", message="gone"))
                elif at_most > 0:
                    at_most -= self._send(plan, work, at_most)
            self.finish(plan, failures)
            self._turn(1000)

    def quarantine(self, key: str) -> None:
        """Let nothing be read of it until it is given up."""
        for _ in range(20):
            plan = self.plan()
            assert {work.object.id.key for work in self.works[plan]} <= {key}
            self.finish(
                plan, [Failure(work=each, kind="InvalidObject", message="bad") for each in self.works[plan]]
            )
            self._turn(_HOUR_MS)

    def replay(self, *keys: str, from_start: bool = False) -> None:
        """As `headrace replay` does."""
        for key in keys:
            command = Replay(selection=Selection(key=key), is_from_start=from_start)
            self.do(self.catalogue.apply_command(command, [listed(key, last_modified_ms=_OLD)], self.now))
        self._turn(1000)

    def _send(self, plan: int, work: Split, at_most: int) -> int:
        rows = list(_rows_of(work))
        sent = rows[:at_most]
        if not sent:
            return 0
        self._kafka += [row for row, _ in sent]
        entry = LedgerEntry(
            state=State.DONE if len(sent) == len(rows) else State.PARTIAL,
            records=work.records + len(sent),
            position=sent[-1][1],
            options=work.options,
            sides=work.sides,
            tombstones=work.tombstones,
            size=10,
            last_modified_ms=_OLD,
            updated_ms=self.now.wall_ms,
        )
        self.commit(plan, work.object.id, entry)
        return len(sent)

    def _turn(self, after_ms: int = 0) -> None:
        for key, entry in self.ledger.follow():
            self.catalogue.on_ledger_record(key, entry)
        for folder in self.tick(after_ms).searches:
            calls = BucketCalls(self._listed, lambda one: _TAGS.get(one.id.key, {}), _source, self._known)
            self.catalogue.on_tombstones(self._search.search(calls, folder))
            self._turn()

    def _listed(self, prefix: str) -> list[S3Object]:
        return [listed(key, last_modified_ms=_OLD) for key in sorted(self.bucket) if key.startswith(prefix)]

    def _known(self, folder: str) -> Iterator[tuple[ObjectId, LedgerEntry]]:
        for key, entry in self.ledger.truth.items():
            if isinstance(key, ObjectId) and key.key.startswith(folder):
                yield key, entry


def _rows(key: str) -> list[str]:
    return (_ROWS | _BETWEEN)[key]


def _source(s3_object: S3Object) -> MemorySource:
    return MemorySource(b'"k"\n' * len(_rows(s3_object.id.key)), name=s3_object.id.url)


def _rows_of(work: Split) -> Iterator[tuple[str, JoinedPosition]]:
    """What is left of an object, with what is merged, and where each row ends."""
    start = work.start or JoinedPosition(None, 0)
    assert isinstance(start, JoinedPosition)
    row, sent = max(start.row, work.first_row), start.tombstones
    merged = [
        (place.row, _rows(each.keys.key)[number])
        for each in work.tombstones
        for place in each.places
        for number in range(place.first, place.first + place.count)
    ][sent:]
    for number in range(row, len(_rows(work.object.id.key))):
        while merged and merged[0][0] <= number:
            sent += 1
            yield merged.pop(0)[1], JoinedPosition(BytePosition(number), number, sent)
        after = JoinedPosition(BytePosition(number + 1), number + 1, sent)
        yield _rows(work.object.id.key)[number], after


@pytest.mark.parametrize("rows", range(10))
def test_after_at_a_restart_sends_no_tombstone_a_second_time(rows: int) -> None:
    """A restart after any row: what an object was begun with stays, the rest comes after all values."""
    ledger, kafka = FakeLedger(), list[str]()
    _Restore(ledger, kafka, "proven").work(rows)
    assert kafka == _IN_ORDER[:rows]
    restore = _Restore(ledger, kafka, "after")
    restore.work()

    merged = {"t2", "t5"} & set(kafka[:rows])
    values = [row for row in _IN_ORDER[rows:] if not row.startswith("t")]
    left = [row for row in ("t2", "t5", "t8") if row not in kafka[:rows]]
    assert kafka == [*_IN_ORDER[:rows], *values, *left]
    assert restore.catalogue.is_idle
    ended = restore.entry(_T)
    assert ended is not None
    assert (ended.state, ended.reason) == (
        (State.SKIPPED, "joined") if len(merged) == 2 else (State.DONE, None)
    )


@pytest.mark.parametrize("rows", range(10))
def test_proven_at_a_restart_sends_no_tombstone_a_second_time(rows: int) -> None:
    """What went after the values stays there; what has lost its place is held back in sight."""
    ledger, kafka = FakeLedger(), list[str]()
    _Restore(ledger, kafka, "after").work(rows)
    restore = _Restore(ledger, kafka, "proven")
    restore.work()

    entry = restore.entry(_T)
    assert entry is not None
    is_held_back = 3 <= rows <= 6  # a value that it is before is in Kafka without it
    assert (entry.reason == "tombstone_order_unknown") is is_held_back
    assert sorted(kafka) == sorted(set(_IN_ORDER) - ({"t2", "t5"} if is_held_back else set()))


def _passed_over(ledger: FakeLedger, kafka: list[str], rows: int) -> None:
    """The last value object is deleted when so many rows are in Kafka: its tombstone is held back."""
    restore = _Restore(ledger, kafka, "proven")
    restore.work(rows)
    restore.work(gone=_C)
    entry = restore.entry(_T)
    assert entry is not None
    assert entry.state is State.QUARANTINED
    assert "Set restore.tombstones=after and replay it" in (entry.error or "")


@pytest.mark.parametrize(("rows", "left"), [(5, ["t5"]), (6, []), (7, [])])
def test_a_tombstone_object_is_replayed_as_its_sentence_says(rows: int, left: list[str]) -> None:
    """Its first row is before values already; the second one is, or is not."""
    ledger, kafka = FakeLedger(), list[str]()
    _passed_over(ledger, kafka, rows)
    restore = _Restore(ledger, kafka, "after", bucket=(_A, _B, _T, _LAST, *_KEYS))
    restore.replay(_T)
    restore.work()

    assert kafka == [*_IN_ORDER[:rows], "t8", *left]
    assert restore.catalogue.is_idle
    ended = restore.entry(_T)
    assert ended is not None
    assert (ended.state, ended.reason) == ((State.DONE, None) if left else (State.SKIPPED, "joined"))


def test_what_tombstones_were_merged_into_is_remembered() -> None:
    """Its entry is the only one that knows what of them is in Kafka, however old it is."""
    ledger, kafka = FakeLedger(), list[str]()
    _passed_over(ledger, kafka, 5)
    others = [object_id(f"topics/u/{number}") for number in range(8)]
    for other in others:  # or half of all would be absent, which is doubted
        ledger.commit(other, LedgerEntry(state=State.DONE, updated_ms=NOW))
    shown = tuple(other.key for other in others)
    restore = _Restore(ledger, kafka, "after", bucket=(_T, *shown))
    for days in (40, 2, 2):
        restore.now_ms += days * _DAY_MS
        restore.list_all()
    assert restore.entry(_A) is None
    restore.replay(_T)
    restore.work()

    assert kafka == [*_IN_ORDER[:5], "t8", "t5"]


def test_values_that_are_read_again_without_them_do_not_count() -> None:
    """A replay of both from their starts has all of them once more, as the sentence says."""
    ledger, kafka = FakeLedger(), list[str]()
    _Restore(ledger, kafka, "proven").work()
    restore = _Restore(ledger, kafka, "after")
    restore.replay(_A, _B, _C, _T, from_start=True)
    restore.work()

    assert kafka == [*_IN_ORDER, "a0", "a1", "b3", "b4", "c6", "c7", "t2", "t5"]
    assert restore.catalogue.is_idle


def test_after_holds_back_tombstones_of_a_value_object_that_ends_too_early() -> None:
    """It was to be read on, with them; a replay sends what is left of them."""
    ledger, kafka = FakeLedger(), list[str]()
    _Restore(ledger, kafka, "proven").work(6)
    restore = _Restore(ledger, kafka, "after")
    restore.work(gone=_C)
    entry = restore.entry(_T)
    assert entry is not None
    assert entry.reason == "tombstone_order_unknown"
    assert "passed over (missing). Replay it: those not in Kafka come after" in (entry.error or "")

    restore.replay(_T)
    restore.work()
    assert kafka == [*_IN_ORDER[:6], "t8"]
    assert restore.catalogue.is_idle


@pytest.mark.parametrize(
    ("from_start", "sent"),
    [
        pytest.param(False, ["d0", "u1", "d2"], id="the value object is read on, with them"),
        pytest.param(True, ["d0", "d0", "d2", "u1"], id="or again, without them"),
    ],
)
def test_after_holds_back_tombstones_that_a_quarantined_value_object_owes(
    from_start: bool, sent: list[str]
) -> None:
    """They were taken for sent, and their object for joined: a replay from the start lost them in silence."""
    ledger, kafka, bucket = FakeLedger(), list[str](), (_D, _U, _D.replace(".json", ".keys.json"))
    _Restore(ledger, kafka, "proven", bucket=bucket).work(1)
    restore = _Restore(ledger, kafka, "after", bucket=bucket)
    restore.quarantine(_D)
    entry = restore.entry(_U)
    assert entry is not None
    assert (entry.state, entry.reason) == (State.QUARANTINED, "tombstone_order_unknown")
    assert _D in (entry.error or "")

    restore.replay(_U)  # too early: nothing has changed
    restore.work()
    entry = restore.entry(_U)
    assert entry is not None
    assert entry.state is State.QUARANTINED

    restore.replay(_D, from_start=from_start)
    restore.work()
    restore.replay(_U, from_start=from_start)
    restore.work()
    assert kafka == sent
    assert restore.catalogue.is_idle


def test_the_sentence_advises_no_option_that_is_set() -> None:
    """A value object is replayed while its tombstones wait for it: they have lost their place."""
    ledger, kafka = FakeLedger(), list[str]()
    _Restore(ledger, kafka, "proven").work(4)
    restore = _Restore(ledger, kafka, "after")
    restore.replay(_B, from_start=True)
    restore.work()
    entry = restore.entry(_T)
    assert entry is not None
    assert entry.reason == "tombstone_order_unknown"
    assert "Replay that object and this one with --from-start to have both once more, values first" in (
        entry.error or ""
    )
    assert "restore.tombstones" not in (entry.error or "")

    restore.replay(_B, _T, from_start=True)
    restore.work()
    assert kafka[-4:] == ["b3", "b4", "t2", "t5"]
