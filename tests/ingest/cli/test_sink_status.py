"""`headrace status` of a sink, and the commands that are a source's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headrace.model.errors import InvalidConfiguration
from headrace.model.ledger_entry import ControlKey
from headrace.model.sink_entries import (
    ObjectState,
    PartitionCheckpoint,
    SealedObject,
    SinkEntry,
    Upload,
    encode_sink_entry,
    key_of,
)
from ingest.checks.probes.status_reader import sink_status
from ingest.cli.replay_and_mark import mark, replay
from ingest.cli.status import lines_of, status
from ingest.http.snapshot import SinkPartition, SinkStatus, Snapshot


def sealed(name: str, state: ObjectState) -> SealedObject:
    """An object of orders-1."""
    return SealedObject(
        id=name,
        topic="orders",
        partition=1,
        topic_id="t",
        group="",
        first_offset=0,
        last_offset=9,
        records=10,
        bytes=100,
        uploads=(Upload(key="k", upload_id="u", parts=()),),
        options="o",
        sealed_ms=1,
        bucket="b",
        state=state,
    )


def test_the_ledger_tells_offsets_and_what_is_not_visible_yet() -> None:
    """Sums, and a line for each partition in order; complete objects are no news."""
    entries: list[SinkEntry] = [
        PartitionCheckpoint(topic="orders", partition=1, topic_id="t", offset=10),
        PartitionCheckpoint(topic="orders", partition=0, topic_id="t", offset=7),
        sealed("a", ObjectState.PENDING),
        sealed("b", ObjectState.QUARANTINED),
        sealed("c", ObjectState.COMPLETE),
    ]
    controls = [(key_of(one), encode_sink_entry(one)) for one in entries]

    status = sink_status([*controls, (ControlKey("slots"), b"{}")])

    assert [(one.partition, one.offset, one.pending_objects) for one in status.partitions] == [
        (0, 7, 0),
        (1, 10, 1),
    ]
    assert (status.pending_objects, status.quarantined_objects) == (1, 1)
    assert [(one.end, one.lag) for one in status.partitions] == [(None, None), (None, None)]


@pytest.mark.parametrize("source", ["service", "ledger"])
def test_people_are_shown_how_far_each_partition_is(source: str) -> None:
    """Live with lag and rates, else what the ledger has."""
    partition = SinkPartition(
        topic="orders",
        partition=1,
        state="granted",
        slot=0,
        offset=10,
        position=40,
        end=50,
        lag=40,
        pending_objects=1,
        quarantined_objects=0,
        detail=None,
    )
    sink = SinkStatus(
        lag=40, open_objects=2, pending_objects=1, unproven_objects_total=3, partitions=(partition,)
    )
    shape: dict[str, Any] = Snapshot(
        name="backup", version="1", role="leader", ready=True, sink=sink
    ).as_dict()

    lines = list(lines_of({"source": source, "why": "silent", **shape}))

    assert "  orders-1  granted, at 10 of 50, 40 behind, slot 0" in lines
    assert "sealed    1 object not visible yet" in lines
    assert "unproven  3 objects neither uploading nor there: see the log" in lines
    assert any(line.startswith("lag       40 offsets") for line in lines) == (source == "service")
    assert not any(line.startswith("backlog") for line in lines)


@pytest.mark.parametrize(
    ("missing", "lines"),
    [
        ((), []),
        (("late",), ["missing   1 topic not there: late"]),
        (("a\nb", "late"), ["missing   2 topics not there: a\\nb, late"]),
    ],
)
def test_people_are_shown_which_topics_are_not_there(missing: tuple[str, ...], lines: list[str]) -> None:
    """A misspelled name among `topics` is seen at a look."""
    sink = SinkStatus(missing_topics=missing)
    shape: dict[str, Any] = Snapshot(name="backup", version="1", role="leader", sink=sink).as_dict()

    shown = list(lines_of({"source": "service", **shape}))

    assert [line for line in shown if line.startswith("missing")] == lines


def test_a_service_that_does_not_say_it_is_shown_all_the_same() -> None:
    """A command may be newer than the service that it asks."""
    shape: dict[str, Any] = Snapshot(name="backup", version="1", sink=SinkStatus()).as_dict()
    del shape["sink"]["missing_topics"]

    assert list(lines_of({"source": "service", **shape}))


@pytest.mark.parametrize(
    ("command", "arguments"),
    [(replay, ["--key", "k"]), (mark, ["--key", "k"]), (status, ["--key", "k"])],
)
def test_commands_about_objects_refuse_a_sink(
    tmp_path: Path, command: Callable[..., None], arguments: list[str]
) -> None:
    """One sentence, before anything is asked of anybody."""
    file = tmp_path / "sink.json"
    file.write_text(
        json.dumps(
            {
                "name": "backup",
                "topics": "orders",
                "bootstrap.servers": "127.0.0.1:1",
                "aws.s3.bucket.name": "bucket",
            }
        )
    )
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(command)

    with pytest.raises(InvalidConfiguration, match="'backup' is a sink, and "):
        CliRunner().invoke(app, [str(file), *arguments], catch_exceptions=False)
