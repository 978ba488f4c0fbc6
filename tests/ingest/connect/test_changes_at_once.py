"""Changes of several connectors at once: none waits for what another connector's brokers are asked."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus

import pytest

from headrace.kafka.control_records import ConnectorRecord, connector_key, connector_records, encode
from headrace.model.errors import Unavailable
from headrace.options import Settings
from ingest.connect.changes import ConnectorChanges
from ingest.connect.connector_loading import Loading
from ingest.http.rest.port import NotLeading
from ingest.http.rest.router import Refused
from tests.ingest.connect.test_worker_changes import SOURCE, Store, load_text, worker_settings

_SECONDS = 60.0
_OTHERWISE = {**SOURCE, "topic": "others"}


class Asked:
    """Changes of `slow`, whose brokers answer once they are let, and of others."""

    def __init__(self) -> None:
        self.store = Store()
        self.asked = threading.Semaphore(0)
        self.answers = threading.Event()
        self.meanwhile: list[tuple[str, ConnectorRecord]] = []
        self.error: Unavailable | None = None
        load = Loading(worker_settings(), load_text)
        self.changes = ConnectorChanges(self.store, load, load_past=load.past, in_hand=self._in_hand)
        self.changes.create("slow", SOURCE)

    def _in_hand(self, settings: Settings, _meaning: str) -> Sequence[str]:
        self.asked.release()
        if settings.name == "slow":
            assert self.answers.wait(_SECONDS)
        for name, record in self.meanwhile:
            self.store.records[connector_key(name)] = encode(record)
        if self.error is not None:
            raise self.error
        return []

    def topics(self) -> dict[str, str]:
        """Those of the connectors that there are."""
        records = connector_records(self.store.controls())
        return {name: record.config["topic"] for name, record in records.items()}


def test_a_change_waits_for_no_other_connectors_brokers() -> None:
    """Whatever is done to the others meanwhile, also where it has to ask theirs."""
    one = Asked()
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(one.changes.configure, "slow", _OTHERWISE)
        assert one.asked.acquire(timeout=_SECONDS)
        others = pool.submit(_live, one.changes)
        try:
            others.result(_SECONDS)
            assert not slow.done()
        finally:
            one.answers.set()
        assert slow.result(_SECONDS)[0].config["topic"] == "others"

    assert one.topics() == {"slow": "others"}
    assert not one.changes._turns


def _live(changes: ConnectorChanges) -> None:
    changes.create("other", SOURCE)
    changes.configure("other", _OTHERWISE)
    changes.patch("other", {"tasks.max": "3"})
    changes.delete("other")


def test_changes_of_one_connector_come_one_after_the_other() -> None:
    """What is deleted while it is changed stays deleted, and the second of two is judged by the first."""
    one, found = Asked(), list[Future[object]]()
    with ThreadPoolExecutor() as pool:
        found.append(pool.submit(one.changes.configure, "slow", _OTHERWISE))
        assert one.asked.acquire(timeout=_SECONDS)
        found.append(pool.submit(one.changes.delete, "slow"))
        found.append(pool.submit(one.changes.create, "another", SOURCE))
        # What waits for no answer has had the time to be done.
        found[2].result(_SECONDS)
        assert not found[1].done()
        assert one.topics()["slow"] == "events"
        one.answers.set()
        for future in found:
            future.result(_SECONDS)

    assert one.topics() == {"another": "events"}


def test_what_another_worker_has_written_meanwhile_is_not_written_over() -> None:
    """It may have led while the brokers were asked: the same request is judged again, and then taken."""
    one = Asked()
    one.answers.set()
    theirs = ConnectorRecord(name="slow", config={**SOURCE, "name": "slow", "topic": "theirs"}, at_ms=1)
    one.meanwhile = [("slow", theirs)]
    writes = one.store.writes
    with pytest.raises(NotLeading, match="changed connector slow meanwhile") as raised:
        one.changes.configure("slow", _OTHERWISE)
    assert (raised.value.passes, one.store.writes, one.topics()) == (True, writes, {"slow": "theirs"})

    one.meanwhile = []
    one.changes.configure("slow", _OTHERWISE)
    assert one.topics() == {"slow": "others"}


def test_brokers_that_are_away_are_to_be_asked_again() -> None:
    """409 is what clients of Connect repeat; nothing is changed."""
    one = Asked()
    one.answers.set()
    one.error = Unavailable("the brokers did not answer: 127.0.0.1:1")
    with pytest.raises(Refused, match="what connector slow has begun is not known: the brokers") as raised:
        one.changes.configure("slow", _OTHERWISE)

    assert raised.value.status is HTTPStatus.CONFLICT
    assert one.topics() == {"slow": "events"}
