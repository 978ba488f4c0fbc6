"""The road of a slot on real parts: Spark, LocalStack, a broker, and a driver whose every step is said."""

from collections.abc import Callable

import pytest

from ingest.ledger import State
from ingest.positions import BytePosition
from ingest.work import Outcome
from spark.lanes import SlotEnded
from tests.spark.scripted_driver import ScriptedDriver

pytestmark = pytest.mark.parts

Drivers = Callable[..., ScriptedDriver]


def lines(count: int, mark: str = "a") -> bytes:
    """So many JSON lines, each different."""
    return b"".join(b'{"mark":"%s","n":%d}\n' % (mark.encode(), n) for n in range(count))


def test_an_object_arrives_with_its_checkpoint(driver: Drivers) -> None:
    """Every line is a record under the object's key, and the ledger says done behind the last byte."""
    one = driver()
    content = lines(1000)
    found = one.put("folder/a b+c%3D=é.jsonl", content)
    one.ready()

    finished = one.run(one.work(found))

    assert finished.outcome is Outcome.CLEAN
    assert finished.failures == ()
    records = one.records()
    assert b"".join((record.value or b"") + b"\n" for record in records) == content
    assert {record.key for record in records} == {"folder/a b+c%3D=é.jsonl".encode()}
    entry = one.entries()[found.id]
    assert (entry.state, entry.records, entry.position) == (State.DONE, 1000, BytePosition(len(content)))
    one.lanes.end(0)
    assert one.expect(SlotEnded).clean
