"""Another `aws.s3.prefix` with `file.name.match=exact` reads other topics and partitions from one key."""

from dataclasses import replace

import pytest

from headrace.kafka.cache_files import CachedEntry
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry
from headrace.model.positions import BytePosition
from headrace.options.describe import options_hash
from ingest.connect.changes import begun_otherwise
from tests.ingest.connect.test_worker_changes import SOURCE, WORKER, Worker, load_text

_EXACT = {name: text for name, text in SOURCE.items() if name != "topic"} | {
    "file.name.match": "exact",
    "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}.jsonl",
    "input.format": "jsonl",
}
_KEY = "eu-orders-3-17.jsonl"
_SEARCH = {**_EXACT, "file.name.match": "search"}


@pytest.mark.parametrize(
    ("config", "prefix", "reading", "is_taken"),
    [
        pytest.param(_EXACT, "eu-", [_KEY], False, id="another topic"),
        pytest.param(_EXACT, "eu-", [], True, id="nothing is begun"),
        pytest.param(_EXACT, "eu-", ["other.jsonl"], True, id="what is not read any more"),
        pytest.param(_EXACT, "us-", [_KEY], True, id="outside of the prefix"),
        pytest.param({**_EXACT, "topic": "one"}, "eu-", [_KEY], True, id="where it went before"),
        pytest.param(_SEARCH, "eu-", [_KEY], True, id="of the whole key"),
    ],
)
def test_a_prefix_is_refused_that_leads_what_is_begun_elsewhere(
    config: dict[str, str], prefix: str, reading: list[str], *, is_taken: bool
) -> None:
    """The rest of the object would be quarantined, though its position has the hash of before."""
    worker = Worker()
    assert worker.ask("POST", "/connectors", {"name": "uploads", "config": config})[0] == 201
    worker.in_hand = reading
    status, shown = worker.ask("PATCH", "/connectors/uploads/config", {"aws.s3.prefix": prefix})

    assert status == (200 if is_taken else 400)
    if not is_taken:
        assert "aws.s3.prefix would give the position in each object that is begun" in shown["message"]
        assert repr(_KEY) in shown["message"]


def test_what_was_begun_before_the_prefix_of_before_may_be_read_again() -> None:
    """The ledger has where it went; what the prefix of before left out is judged by that alone."""
    worker = Worker()
    body = {"name": "uploads", "config": {**_EXACT, "aws.s3.prefix": "us-"}}
    assert worker.ask("POST", "/connectors", body)[0] == 201
    worker.in_hand = [_KEY]
    assert worker.ask("PATCH", "/connectors/uploads/config", {"aws.s3.prefix": "eu-"})[0] == 400

    worker.in_hand = []
    assert worker.ask("PATCH", "/connectors/uploads/config", {"aws.s3.prefix": ""})[0] == 200


_BEGUN = LedgerEntry(state=State.PARTIAL, position=BytePosition(40), topic="eu-orders", partition=3, size=100)


@pytest.mark.parametrize(
    ("prefix", "entry", "counts"),
    [
        pytest.param("", _BEGUN, False, id="as it was"),
        pytest.param("eu-", _BEGUN, True, id="another topic"),
        pytest.param("eu-", replace(_BEGUN, topic="orders"), False, id="its topic"),
        pytest.param("eu-", replace(_BEGUN, topic="orders", partition=4), True, id="another partition"),
        pytest.param("eu-", replace(_BEGUN, position=None, cuts=(0, 50, 100)), True, id="splits"),
        pytest.param("eu-", replace(_BEGUN, position=None), False, id="not begun"),
        pytest.param("eu-", replace(_BEGUN, topic=None, partition=None), False, id="an entry without topic"),
        pytest.param("eu-o", _BEGUN, True, id="part of a topic"),
        pytest.param("us-", _BEGUN, False, id="outside of the prefix"),
    ],
)
def test_the_ledger_says_where_what_is_begun_has_gone(
    prefix: str, entry: LedgerEntry, *, counts: bool
) -> None:
    """Under the hash of now: a prefix is in none."""
    settings = load_text({**_EXACT, "name": "uploads", "aws.s3.prefix": prefix}, WORKER)
    meaning = options_hash(settings.format, settings.routing, settings.transforms)
    raw = encode_entry(replace(entry, options=meaning))
    cached = CachedEntry("bucket", _KEY, "etag", entry.state.value, raw)

    assert begun_otherwise([cached], settings, meaning) == ([_KEY] if counts else [])
