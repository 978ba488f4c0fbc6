"""What a ledger says of objects that are begun, as it is asked before a configuration changes."""

import json

import pytest

from headrace.kafka.ledger_writer import Write
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.positions import BytePosition
from headrace.vendors.load import load
from ingest.connect.changes import begun_in_ledger
from tests.headrace.kafka.ingester import DONE, Ingester, object_id
from tests.headrace.kafka.test_writer import writer_of

pytestmark = pytest.mark.parts

_NOW, _BEFORE = "1111111111111111", "2222222222222222"


def _begun(options: str) -> LedgerEntry:
    return LedgerEntry(state=State.PARTIAL, position=BytePosition(7), options=options, size=10)


def test_only_what_is_begun_under_other_options_counts(ingester: Ingester) -> None:
    """A position, or splits that were cut, and no end yet."""
    writes: list[Write] = [
        (object_id(1), _begun(_BEFORE)),
        (object_id(2), _begun(_NOW)),
        (object_id(3), DONE),
        (object_id(4), LedgerEntry(state=State.FAILED, attempts=1)),
        (object_id(5), LedgerEntry(state=State.PARTIAL, cuts=(5,), options=_BEFORE, size=10)),
    ]
    writer_of(ingester, ingester.lead()).commit(writes)
    config = {
        "name": ingester.name,
        "bootstrap.servers": ingester.bootstrap,
        "aws.s3.bucket.name": "bucket",
        "topic": ingester.output,
        "file.name.template": ".*",
    }
    settings = load(json.dumps(config), kind="json", environment={}, read_file=str)

    assert begun_in_ledger(settings, _NOW) == [object_id(1).key, object_id(5).key]
    for other in ({"aws.s3.bucket.name": "another"}, {"aws.s3.prefix": "another/"}):
        elsewhere = load(json.dumps({**config, **other}), kind="json", environment={}, read_file=str)
        assert begun_in_ledger(elsewhere, _NOW) == [], "what it does not read can wait for ever"
    assert (
        begun_in_ledger(
            load(json.dumps({**config, "name": "none-there"}), kind="json", environment={}, read_file=str),
            _NOW,
        )
        == []
    )
