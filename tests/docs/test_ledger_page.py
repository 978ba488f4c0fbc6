"""The examples of docs/ledger.md are what the encoders write: one of each kind of record and of position."""

import json
import re
from collections.abc import Mapping
from typing import Final, get_args

import pytest

from headrace.kafka.control_records import (
    CREATION,
    FIRST_START,
    OWNER,
    PAUSE,
    SLOTS,
    TOPICS,
    WORKERS,
    AbsentRange,
    CommandRecord,
    ConnectorRecord,
    Control,
    Creation,
    FirstStart,
    Owner,
    Pause,
    SlotCount,
    TargetState,
    TopicsReset,
    WorkerRecord,
    WorkersRecord,
    command_key,
    connector_key,
    decode_control,
    decode_worker_record,
    encode,
    encode_control,
    first_start_key,
    is_worker_key,
)
from headrace.model.ledger_entry import (
    ControlKey,
    LedgerEntry,
    LedgerKey,
    SplitKey,
    State,
    _EntryShape,
    decode_entry,
    decode_key,
    encode_entry,
    encode_key,
)
from headrace.model.objects import ObjectId, PlacedTombstones, RowPlace, SideObject
from headrace.model.positions import (
    BlockPosition,
    BytePosition,
    ElementPosition,
    JoinedPosition,
    PlainPosition,
    Position,
    RowPosition,
    position_as_dict,
)
from headrace.model.sink_entries import (
    GroupingOptions,
    PartitionCheckpoint,
    SealedObject,
    SinkEntry,
    Upload,
    decode_sink_entry,
    encode_sink_entry,
    is_sink_key,
    key_of,
)
from headrace.vendors.load import load
from ingest.source.command_queue import CommandObject, ObjectsCommand
from spark.sink.grouping_options import grouping_hash, grouping_options
from tests.docs.pages import ROOT, blocks

PAGE: Final = ROOT / "docs" / "ledger.md"
WIDTH: Final = 118

_MS: Final = 1_769_846_400_000
_TOPIC_ID: Final = "Yx2Qk0oOTXm1c3mG8bq7mA"
_OBJECT: Final = "9f3c5a0d7be1426c8a5d2e90b4f61c73"
_FLIGHTS: Final = ObjectId("uploads", "in/flights-2026-01-31.jsonl.gz", "5d41402abc4b2a76b9719d911017c592")
_LARGE: Final = ObjectId("uploads", "in/year.csv", "7d793037a0760186574b0282f2f435e7-12")
_VALUES: Final = ObjectId(
    "backup", "topics/orders/0/orders+0+0000000100.json", "9b74c9897bac770ffc029102a200c5de"
)
_SINK: Final = load(
    json.dumps(
        {
            "name": "archive",
            "bootstrap.servers": "broker:9092",
            "aws.s3.bucket.name": "backup",
            "aws.s3.region": "us-east-1",
            "topics": "orders",
            "file.name.template": "{{topic}}/{{partition}}-{{start_offset}}.jsonl",
        }
    ),
    kind="json",
    environment={},
    read_file=lambda path: path,
).sink
assert _SINK is not None
_GROUPING: Final = GroupingOptions(hash=grouping_hash(_SINK), options=grouping_options(_SINK))


def _entry(key: LedgerKey, entry: LedgerEntry) -> tuple[bytes, bytes]:
    return encode_key(key), encode_entry(entry)


def _control(key: ControlKey, control: Control) -> tuple[bytes, bytes]:
    return encode_key(key), encode_control(control)


def _sink(entry: SinkEntry) -> tuple[bytes, bytes]:
    return encode_key(key_of(entry)), encode_sink_entry(entry)


def _side(role: str, etag: str) -> SideObject:
    return SideObject(f"topics/orders/0/orders+0+0000000100.{role}.json", etag, 2048)


# By the heading under which the page shows them.
EXAMPLES: Final[Mapping[str, tuple[bytes, bytes]]] = {
    "An object that is done": _entry(
        _FLIGHTS,
        LedgerEntry(
            state=State.DONE,
            records=1200,
            bad=1,
            position=BytePosition(98304),
            options="0c1b2a3948576675",
            topic="flights",
            partition=2,
            size=20480,
            last_modified_ms=_MS,
            updated_ms=_MS + 2500,
        ),
    ),
    "An object that was split": _entry(
        _LARGE,
        LedgerEntry(
            state=State.PARTIAL,
            options="0c1b2a3948576675",
            topic="flights",
            size=805306368,
            last_modified_ms=_MS,
            updated_ms=_MS + 2500,
            cuts=(0, 268435456, 536870912, 805306368),
        ),
    ),
    "A split": _entry(
        SplitKey(_LARGE, 268435456, 536870912),
        LedgerEntry(
            state=State.PARTIAL,
            records=910000,
            position=BytePosition(301989888),
            options="0c1b2a3948576675",
            topic="flights",
            size=805306368,
            last_modified_ms=_MS,
            updated_ms=_MS + 9000,
        ),
    ),
    "A restored object with side objects": _entry(
        _VALUES,
        LedgerEntry(
            state=State.DONE,
            records=101,
            position=JoinedPosition(BytePosition(8192), 100, 1),
            options="8f3d1c0e5a7b9264",
            topic="orders",
            partition=0,
            size=8192,
            last_modified_ms=_MS,
            updated_ms=_MS + 2500,
            sides=(_side("keys", "e4d909c290d0fb1ca068ffaddf22cbd0"),),
            tombstones=(
                PlacedTombstones(
                    SideObject(
                        "tombstones/orders/0/orders+0+0000000150.keys.json",
                        "6f8db599de986fab7a21625b7916589c",
                        32,
                    ),
                    None,
                    (RowPlace(50, 0, 1),),
                ),
            ),
            action="delete",
        ),
    ),
    "Who owns the ledger": _control(OWNER, Owner(name="uploads")),
    "How many slots there were": _control(SLOTS, SlotCount(slots=4)),
    "The first start": _control(
        first_start_key("uploads"),
        FirstStart(
            at_ms=_MS,
            start_key="in/2026",
            uploads={"in/late.csv": _MS - 60_000},
            moved_to=("read/",),
            prefix="in/",
            absent=(AbsentRange("in/", "", "in/2026-01", "", 1772438400000),),
            listed_ms=(1772438400000, 1772442000000),
        ),
    ),
    "What operators want": _control(PAUSE, Pause(state=TargetState.STOPPED, at_ms=_MS)),
    "As what it was created": _control(CREATION, Creation(id=_MS, state=TargetState.RUNNING)),
    "When its topics were reset": _control(TOPICS, TopicsReset(at_ms=_MS, offsets=(("orders", 0, 1200),))),
    "A command": _control(
        command_key("3f0c9e4b8d2a4716a5c1e7d09b86f325-000000"),
        ObjectsCommand(
            action="replay",
            bucket="uploads",
            objects=(CommandObject(_FLIGHTS.key, _FLIGHTS.etag, 20480, _MS),),
            states=("done",),
            from_start=True,
            at_ms=_MS,
        ),
    ),
    "A partition": _sink(
        PartitionCheckpoint(
            topic="orders",
            partition=0,
            topic_id=_TOPIC_ID,
            offset=1200,
            highest=1349,
            dead_letters=(1217,),
            options=_GROUPING.hash,
            leader_epoch=4,
            epoch_end=1200,
        )
    ),
    "A sealed object": _sink(
        SealedObject(
            id=_OBJECT,
            topic="orders",
            partition=0,
            topic_id=_TOPIC_ID,
            group="",
            first_offset=1200,
            last_offset=1349,
            records=149,
            bytes=18240,
            uploads=(
                Upload(
                    key="orders/0-1200.jsonl",
                    upload_id="2~qZ8vWJtX0",
                    parts=('"0cc175b9c0f1b6a831c399e269772661" 6Le+Qw==',),
                    started_ms=_MS,
                ),
            ),
            options=_GROUPING.hash,
            sealed_ms=_MS + 60_000,
            bucket="backup",
        )
    ),
    "Options that group": _sink(_GROUPING),
    "A connector": (
        encode_key(connector_key("uploads")),
        encode(
            ConnectorRecord(
                name="uploads",
                config={"name": "uploads", "topic": "flights"},
                at_ms=_MS,
                created_ms=_MS,
            )
        ),
    ),
    "The workers": (
        encode_key(WORKERS),
        encode(
            WorkersRecord(
                leader="w1", workers={"w1": WorkerRecord(url="http://10.0.0.7:8083", connectors=("uploads",))}
            )
        ),
    ),
}

POSITIONS: Final[tuple[Position, ...]] = (
    BytePosition(98304),
    ElementPosition(1200, 98304),
    BlockPosition(65536, 17),
    RowPosition(3, 40000),
    JoinedPosition(BytePosition(8192), 100, 1),
)


def _folded(raw: bytes) -> str:
    """The bytes in lines that fit a page: a line ends after a comma, and joined they are the bytes again."""
    lines = [""]
    for piece in re.split(r'(?<=,)(?=["{])', raw.decode()):
        if len(lines[-1]) + len(piece) > WIDTH and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _shown() -> dict[str, str]:
    """The first block after each heading of the page."""
    lines = PAGE.read_text().splitlines()
    found: dict[str, str] = {}
    for block in blocks(PAGE):
        if block.language == "jsonl":
            before = [line for line in lines[: block.line] if line.startswith("#")]
            found[before[-1].lstrip("# ")] = block.text.rstrip("\n")
    return found


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_is_what_the_encoder_writes(heading: str) -> None:
    """Key and value, byte for byte but for the line ends. What is expected can be copied into the page."""
    key, value = EXAMPLES[heading]
    assert _shown().get(heading) == f"{_folded(key)}\n{_folded(value)}"


@pytest.mark.parametrize("heading", EXAMPLES)
def test_an_example_is_read_back(heading: str) -> None:
    """What the page shows is a record that a leader takes."""
    raw_key, raw = EXAMPLES[heading]
    key = decode_key(raw_key)
    if not isinstance(key, ControlKey):
        assert encode_entry(decode_entry(raw)) == raw
    elif is_sink_key(key):
        assert encode_sink_entry(decode_sink_entry(key, raw)) == raw
    elif is_worker_key(key):
        assert encode(decode_worker_record(key, raw)) == raw
    else:
        decode_control(key, raw)


def test_the_page_shows_nothing_else() -> None:
    """A record that no longer exists leaves the page."""
    assert list(_shown()) == list(EXAMPLES)


def test_each_kind_of_record_has_its_example() -> None:
    """A new kind of record without a place on the page is noticed here."""
    shown: set[type] = set()
    for raw_key, raw in EXAMPLES.values():
        key = decode_key(raw_key)
        if not isinstance(key, ControlKey):
            shown.add(type(key))
        elif is_sink_key(key):
            shown.add(type(decode_sink_entry(key, raw)))
        elif is_worker_key(key):
            shown.add(type(decode_worker_record(key, raw)))
        else:
            shown.add(type(decode_control(key, raw)))
    kinds = {*get_args(LedgerKey), *get_args(Control), *get_args(SinkEntry), ConnectorRecord, WorkersRecord}
    assert shown == kinds - {ControlKey}
    assert FIRST_START.name in PAGE.read_text()
    assert issubclass(ObjectsCommand, CommandRecord)


def test_each_position_is_in_the_table() -> None:
    """With the form that the encoder gives it."""
    assert {type(one) for one in POSITIONS} == {*get_args(PlainPosition), JoinedPosition}
    text = PAGE.read_text()
    for position in POSITIONS:
        assert f"`{json.dumps(position_as_dict(position), separators=(',', ':'))}`" in text, position


def test_each_state_and_field_of_an_entry_is_explained() -> None:
    """The tables have a row for each."""
    text = PAGE.read_text()
    for state in State:
        assert f"| `{state}` |" in text, state
    fields = set(_EntryShape.__struct_fields__) - {"v"}
    for name in fields:
        assert re.search(rf"^\|.*`{name}`.*\|.*\|$", text, re.MULTILINE), name
