"""Fencing: after it, nothing that a transactional id had open before can ever commit."""

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from confluent_kafka import KafkaException, Producer

from headrace.kafka.kafka_clients import Properties, new_transactional_producer
from headrace.kafka.kafka_errors import is_unanswered, translate
from headrace.model.errors import Fenced, LeadershipLost, Unavailable

# In parallel: aborting an open transaction takes the broker 0.6 s (24 at once: 1.0 s, 8 in a row: 6.3 s).
_AT_ONCE: Final = 32
_CALL_SECONDS: Final = 1.0


def slot_id(name: str, slot: int) -> str:
    """The transactional id of a slot."""
    return f"{name}-{slot}"


def driver_id(name: str) -> str:
    """The transactional id of the driver's own ledger writes."""
    return f"{name}-driver"


def command_id(name: str) -> str:
    """The transactional id of commands: one for all, so that the next ends what the last left open."""
    return f"{name}-command"


def fence(
    properties: Properties,
    transactional_ids: Collection[str],
    *,
    timeout: float,
    still_leads: Callable[[], bool] | None = None,
    require_wanted: Callable[[], object] = lambda: None,
) -> None:
    """Return when every id's open transaction is aborted or complete and its older producers are refused.

    Blocks up to `timeout` seconds, then Unavailable. LeadershipLost when another driver fences the same ids,
    unless the group says by `still_leads` that it is one of the past, which lags: then they are fenced
    again. `require_wanted` is called while brokers do not answer, and may raise to end the wait.
    It stops only producers initialised before: void the plans first, so that none initialises later with one.
    """
    if not transactional_ids:
        return
    deadline = time.monotonic() + timeout
    with ThreadPoolExecutor(min(_AT_ONCE, len(transactional_ids)), thread_name_prefix="fence") as pool:
        # list() raises the first failure; the others end at the same deadline.
        fence_one = partial(
            _fence_one,
            properties,
            deadline=deadline,
            still_leads=still_leads,
            require_wanted=require_wanted,
        )
        list(pool.map(fence_one, transactional_ids))


def _fence_one(
    properties: Properties,
    transactional_id: str,
    *,
    deadline: float,
    still_leads: Callable[[], bool] | None,
    require_wanted: Callable[[], object],
) -> None:
    while True:
        producer = new_transactional_producer(properties, transactional_id)
        try:
            initialise(producer, transactional_id, deadline=deadline, require_wanted=require_wanted)
        except Fenced as error:
            if still_leads is None or not still_leads():
                raise LeadershipLost(
                    f"Another instance fences {transactional_id!r}: it has taken the lead."
                ) from error
            if time.monotonic() >= deadline:
                raise Unavailable(f"Others keep fencing {transactional_id!r}: {error}") from error
        else:
            producer.close()
            return


def initialise(
    producer: Producer,
    transactional_id: str,
    *,
    deadline: float,
    require_wanted: Callable[[], object] = lambda: None,
) -> None:
    """`init_transactions`, repeated while it is unanswered until `deadline` (monotonic).

    Translated errors: Fenced, AccessDenied, Unavailable; and what `require_wanted`, called between two
    repetitions, raises to end the wait.
    """
    while True:
        require_wanted()
        left = deadline - time.monotonic()
        try:
            producer.init_transactions(max(0.1, min(_CALL_SECONDS, left)))
        except KafkaException as error:
            if not is_unanswered(error) or time.monotonic() >= deadline:
                what = f"transactional id {transactional_id!r} could not be initialised"
                found = translate(error, what=what)
                raise (found if is_unanswered(error) is False else Unavailable(str(found))) from error
        else:
            return
