"""What is said of a ledger that cannot be read to its end, in virtual time."""

import time
from typing import Final

from headrace.kafka.cache_files import CacheDirectory
from headrace.kafka.kafka_errors import LedgerEndHidden
from headrace.kafka.ledger_cache import LedgerCache
from headrace.kafka.ledger_follower import Follower
from headrace.kafka.ledger_topic import OF_WORKERS, LedgerIdentity
from headrace.model.errors import Unavailable
from tests.simulation.broker import Record
from tests.simulation.environment import Environment, environment

_LEDGER: Final = "a-offsets"
_REFUSED: Final = "TOPIC_AUTHORIZATION_FAILED"
_OPEN: Final = "an open transaction"


def test_an_end_is_hidden_by_an_acl_or_by_a_transaction_and_each_is_said_for_itself() -> None:
    """An ACL passed for an open transaction as well, which an operator looks for in vain.

    Mutation tried: where the problem stays once records come again, the ACL is named to the end.
    """
    said: list[str] = []
    with environment(1) as made:
        made.broker.create(_LEDGER, 1)

        def body() -> None:
            identity = LedgerIdentity(cluster_id="c", topic=_LEDGER, topic_id="i")
            cache = LedgerCache(CacheDirectory(path=None, is_shared=False), identity)
            clients = {"bootstrap.servers": "broker:9092"}
            follower = Follower(clients, cache, topic=_LEDGER, group="a", start=0)
            follower.wait_for_visible_end(10.0)
            epoch = made.broker.initialise("other")
            _write(made, epoch)
            made.broker.denied.add(_LEDGER)
            said.append(_hidden(follower))
            made.broker.denied.clear()
            made.broker.commit("other", epoch)
            follower.wait_for(2, 10.0)
            _write(made, epoch)
            said.append(_hidden(follower))
            follower.close()
            cache.close()

        made.operate(body)
    denied, is_open = said
    assert (_REFUSED in denied, _OPEN in denied) == (True, False)
    assert (_REFUSED in is_open, _OPEN in is_open) == (False, True)


def test_a_topic_that_may_not_be_read_is_said_in_seconds_and_by_its_name() -> None:
    """A worker showed nothing of its missing Read on its configuration topic for half a minute."""
    said: list[tuple[str, float]] = []
    with environment(1) as made:
        made.broker.create(_LEDGER, 1)
        made.broker.denied.add(_LEDGER)

        def body() -> None:
            identity = LedgerIdentity(cluster_id="c", topic=_LEDGER, topic_id="i")
            cache = LedgerCache(CacheDirectory(path=None, is_shared=False), identity)
            clients = {"bootstrap.servers": "broker:9092"}
            follower = Follower(clients, cache, topic=_LEDGER, group="a", start=0, words=OF_WORKERS)
            began = time.monotonic()
            try:
                follower.wait_for_visible_end(30.0, refused=5.0)
            except Unavailable as error:
                said.append((str(error), time.monotonic() - began))
            made.broker.denied.clear()
            made.broker.changed.give()
            follower.wait_for_visible_end(30.0)
            follower.close()
            cache.close()

        made.operate(body)
    ((sentence, seconds),) = said
    assert _REFUSED in sentence
    assert sentence.startswith(f"the configuration topic {_LEDGER!r} cannot be read: ")
    assert 4.0 < seconds < 7.0


def _write(made: Environment, epoch: int) -> None:
    """An entry of the ledger, in a transaction that is open then."""
    running = made.broker.transaction("other", epoch)
    made.broker.produce(_LEDGER, 0, Record(0, b'{"control":"slots"}', b'{"v":1,"slots":1}', (), 0), running)
    made.broker.changed.give()


def _hidden(follower: Follower) -> str:
    """What is said when the end is not reached."""
    try:
        follower.wait_for(10, 3.0)
    except LedgerEndHidden as error:
        return str(error)
    return ""
