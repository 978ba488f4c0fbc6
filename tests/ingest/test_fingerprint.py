from dataclasses import replace
from typing import Any

import pytest

from ingest.options_hash import options_hash
from ingest.settings.choices import Compression, Envelope, FileNameMatch, InputFormat, JsonFormat, Ordering
from ingest.settings.record_sources import ObjectKeySource
from ingest.settings.settings import RoutingSettings
from tests.spark.formats.decode_options import decode_options

ROUTING = RoutingSettings(
    file_name_template=".*",
    file_name_match=FileNameMatch.SEARCH,
    topic="orders",
    ordering=Ordering.OBJECT,
    partitioner="murmur2_random",
)
JSONL = decode_options(InputFormat.JSONL).format
BYTES = decode_options(InputFormat.BYTES).format


@pytest.mark.parametrize(
    "change",
    [{"topic": None}, {"file_name_template": "{{topic}}"}, {"file_name_match": FileNameMatch.EXACT}],
)
def test_another_route_is_another_meaning(change: dict[str, Any]) -> None:
    """Rows after the position would go elsewhere than those before."""
    assert options_hash(JSONL, replace(ROUTING, **change)) != options_hash(JSONL, ROUTING)


@pytest.mark.parametrize(
    "change", [{"chunk_bytes": 1}, {"compression": Compression.NONE}, {"input_format": InputFormat.JSONL}]
)
def test_another_cut_of_bytes_is_another_meaning(change: dict[str, Any]) -> None:
    """A position of bytes means a chunk of one size."""
    assert options_hash(replace(BYTES, **change), ROUTING) != options_hash(BYTES, ROUTING)


def test_another_envelope_is_another_meaning() -> None:
    """Rows of an envelope count as other records."""
    assert options_hash(replace(JSONL, envelope=Envelope.AIVEN), ROUTING) != options_hash(JSONL, ROUTING)


@pytest.mark.parametrize(
    "change",
    [
        {"json_format": JsonFormat.CONNECT},
        {"key_source": ObjectKeySource()},
        {"chunk_bytes": 1},
        {"compression": Compression.GZIP},
        {"record_max_bytes": 10},
    ],
)
def test_what_leaves_positions_alone_does_not_count(change: dict[str, Any]) -> None:
    """How rows look may change in the middle of an object."""
    assert options_hash(replace(JSONL, **change), ROUTING) == options_hash(JSONL, ROUTING)


def test_the_hash_is_pinned() -> None:
    """It stands in ledgers: another value after an upgrade would quarantine every partial object."""
    assert options_hash(JSONL, ROUTING) == "d5d5facdfce14477"
