"""The function that a slot's job hands to Spark, and what it gives back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from spark.source.task_settings import TaskSettings

if TYPE_CHECKING:
    import pyarrow as pa

SlotFunction = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]

# One row a task: `error` says in a sentence why a slot could not begin; what it did went over the socket.
RESULT_SCHEMA: Final = "worker string, error string"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCredentials:
    """What lets one task speak for one start of a slot."""

    slot: int
    address: tuple[str, int]
    start_id: bytes
    token: bytes = field(repr=False)


def slot_function(ticket: TaskCredentials, settings: TaskSettings) -> SlotFunction:
    """The function whose one task works for the slot until it is told to end."""

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        # Input that is not read to its end makes Spark throw the Python worker away.
        for _ in batches:
            pass
        # Imported in the worker, so that shipping the function ships two small values and no module.
        from spark.source.slot_loop import run_slot

        yield _result(run_slot(ticket, settings))

    return run


def warm_function(settings: TaskSettings) -> SlotFunction:
    """The function whose tasks only load what a slot's task needs."""

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for _ in batches:
            pass
        from spark.source.slot_loop import warm_process

        yield _result(warm_process(settings))

    return run


def reach_function(address: tuple[str, int]) -> SlotFunction:
    """The function whose task only looks whether the driver answers at its address."""

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for _ in batches:
            pass
        from spark.source.driver_connection import why_unreachable

        yield _result(why_unreachable(address))

    return run


def _result(error: str | None) -> "pa.RecordBatch":
    import pyarrow as pa

    from spark.source.worker_cache import worker_name

    return pa.RecordBatch.from_pydict(
        {"worker": [worker_name()], "error": pa.array([error], type=pa.string())}
    )
