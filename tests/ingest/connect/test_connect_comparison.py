"""A worker of Kafka Connect and one of ours get the same requests: what differs is in the table, with why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.ingest.connect.connect_conversation import Seen, Side, fits, play
from tests.ingest.connect.connect_differences import DIFFERENCES, OWN_WORDS
from tests.ingest.connect.connect_steps import steps
from tests.support import aws, kafka
from tests.support.kafka_connect import SINK_CLASS, SOURCE_CLASS, kafka_connect
from tests.support.worker_process import WorkerProcess, sink_config, source_config

_PAGE: Final = Path(__file__).parents[3] / "docs" / "worker.md"
_STATUSES: Final = {name: statuses for row in DIFFERENCES for name, statuses in row.steps.items()}


def test_the_page_has_every_difference() -> None:
    """Word for word, and no others in that table."""
    _, _, table = _PAGE.read_text().partition("## What differs from Kafka Connect\n")
    rows = [line for line in table.splitlines() if line.startswith("|")]

    assert rows[2:] == [row.row for row in DIFFERENCES]


def test_every_difference_is_about_a_step_of_the_conversation() -> None:
    """So that none is left behind by another conversation."""
    names = [step.name for step in steps()]

    assert len(set(names)) == len(names)
    assert (_STATUSES.keys() | OWN_WORDS) <= set(names)
    assert not _STATUSES.keys() & OWN_WORDS


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    """Connect's worker and ours, with a source and a sink each can run."""
    topic, bucket, prefix = kafka.new_topic("conversation"), aws.new_bucket(), aws.unique("talk") + "-"
    aws.s3().put_object(Bucket=bucket, Key="a.jsonl", Body=b"{}\n")
    etag = aws.s3().head_object(Bucket=bucket, Key="a.jsonl")["ETag"].strip('"')
    lines = tmp_path / "lines.txt"
    lines.write_text("a\n")
    worker = WorkerProcess(folder=tmp_path, group=aws.unique("group"))
    worker.start()
    try:
        with kafka_connect(tmp_path) as port:
            theirs = Side(
                port=port,
                prefix=prefix,
                values={
                    "source_class": SOURCE_CLASS,
                    "sink_class": SINK_CLASS,
                    "topic": topic,
                    "source": {"connector.class": SOURCE_CLASS, "file": str(lines), "topic": topic},
                    "sink": {"connector.class": SINK_CLASS, "file": str(tmp_path / "out"), "topics": topic},
                    "partition": {"filename": str(lines)},
                    "offset": {"position": 1},
                },
            )
            ours = Side(
                port=worker.port,
                prefix=prefix,
                values={
                    "source_class": "HeadraceSource",
                    "sink_class": "HeadraceSink",
                    "topic": topic,
                    "source": source_config(bucket, topic),
                    "sink": sink_config(aws.new_bucket(), topic),
                    "partition": {"bucket": bucket, "key": "a.jsonl", "etag": etag},
                    "offset": {"state": "done", "size": 3},
                },
            )
            worker.await_ready(240)
            yield theirs, ours
    finally:
        worker.kill()


@pytest.mark.parts
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_worker_answers_as_kafka_connect_does(sides: tuple[Side, Side]) -> None:
    """Status, type, place, methods and the form of the document; the words of errors too."""
    theirs, ours = sides
    statuses: dict[str, tuple[int, int]] = {}
    words: set[str] = set()
    seen: dict[str, tuple[Seen, Seen]] = {}
    for step in steps():
        connect, here = seen[step.name] = play(theirs, step), play(ours, step)
        if not _is_same(connect, here):
            statuses[step.name] = connect.status, here.status
        elif connect.message != here.message:
            words.add(step.name)

    assert statuses == _STATUSES, {name: seen[name] for name, _ in statuses.items() ^ _STATUSES.items()}
    assert words == OWN_WORDS, {name: seen[name] for name in words ^ OWN_WORDS}


def _is_same(connect: Seen, here: Seen) -> bool:
    return fits(here.shape, connect.shape) and all(
        getattr(connect, name) == getattr(here, name)
        for name in ("status", "content_type", "location", "allow")
    )
