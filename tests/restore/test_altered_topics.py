"""Names in which a sink wrote its topics' hyphens as another sign, and rows that say what the topic was."""

import io
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.conversion.archives import ArchiveDecoder
from headrace.formats import DecodeOptions
from headrace.model.columns import RowBatch
from tests.headrace.formats.memory_source import MemorySource
from tests.headrace.options.loading import load_with

_FILE: Final = "/0/00000000000000000042.headrace."


def _json(topic: str) -> tuple[str, bytes]:
    return "jsonl", b'{"topic":"%s","partition":0,"offset":42,"value":1}\n' % topic.encode()


def _parquet(topic: str) -> tuple[str, bytes]:
    out = io.BytesIO()
    columns: dict[str, Any] = {"topic": [topic], "partition": [0], "offset": [42], "value": [b"1"]}
    pq.write_table(pa.table(columns), out)
    return "parquet", out.getvalue()


def _decoded(name: str, row: tuple[str, bytes], sent_to: str) -> RowBatch:
    """An object of the topic `name` in its key, whose records go to `sent_to`."""
    extension, content = row
    settings = load_with({"topic": None, "file.name.template": None, "input.layout": "headrace"}).format
    assert settings.restore is not None
    key = f"{name}{_FILE}{extension}"
    (batch,) = ArchiveDecoder(settings.restore).decode(
        MemorySource(content, name=f"s3://archive/{key}"),
        None,
        key=key,
        options=DecodeOptions(format=settings, topic=sent_to),
        begin=None,
        end=None,
    )
    return batch


_ROWS: Final = pytest.mark.parametrize("row_of", [_json, _parquet])


@pytest.mark.parametrize(
    ("name", "topic", "sent_to"),
    [
        ("my_orders", "my-orders", "my-orders"),
        ("my.orders", "my-orders", "my-orders"),
        ("a_b_c", "a-b_c", "restored"),
        ("my_orders", "my_orders", "restored"),
    ],
)
@_ROWS
def test_hyphens_that_the_name_altered_are_no_other_place(
    row_of: Any, name: str, topic: str, sent_to: str
) -> None:
    """Where `restore.topic.map` or `topic` says where such records go."""
    batch = _decoded(name, row_of(topic), sent_to)

    assert (len(batch), batch.bad) == (1, ())


@_ROWS
@pytest.mark.parametrize("sent_to", ["my_orders", ""])
def test_no_topic_is_taken_for_the_altered_one(row_of: Any, sent_to: str) -> None:
    """The topic of the name may be another one: the sentence asks for the map."""
    (bad,) = _decoded("my_orders", row_of("my-orders"), sent_to).bad

    assert bad.reason == "other_place"
    assert "restore.topic.map=my_orders:<topic>" in bad.message


@_ROWS
@pytest.mark.parametrize("topic", ["payments", "my-payments", "my+orders", "my-order"])
def test_another_topic_is_another_place(row_of: Any, topic: str) -> None:
    """Wherever records go."""
    (bad,) = _decoded("my_orders", row_of(topic), "my-orders").bad

    assert (bad.reason, "was the object renamed?" in bad.message) == ("other_place", True)
