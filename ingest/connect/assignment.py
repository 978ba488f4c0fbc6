"""Which worker runs which connector: how the one that leads spreads them, and those that no worker runs.

Connectors are spread evenly, and moved as little as possible.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

import structlog

from headrace.kafka.control_records import WorkersRecord
from headrace.model.text_formatting import and_more

_log = structlog.get_logger(__name__)


def assign(
    connectors: Collection[str], workers: Collection[str], before: Mapping[str, Collection[str]]
) -> dict[str, tuple[str, ...]]:
    """The connectors of each worker, sorted: each connector once, no worker with two more than another.

    A connector stays where it was `before` unless its worker is gone, or has more than its share.
    """
    if not workers:
        return {}
    least, more = divmod(len(connectors), len(workers))
    kept: dict[str, list[str]] = {}
    taken: set[str] = set()
    # Who has most may keep one more than the others, so that nothing moves for the rest's sake.
    for worker in sorted(workers, key=lambda one: (-len(before.get(one, ())), one)):
        room = least + (1 if more > 0 else 0)
        mine = [one for one in sorted(before.get(worker, ())) if one in connectors and one not in taken][
            :room
        ]
        if len(mine) > least:
            more -= 1
        kept[worker] = mine
        taken.update(mine)
    for connector in sorted(set(connectors) - taken):
        worker = min(kept, key=lambda one: (len(kept[one]), one))
        kept[worker].append(connector)
    return {worker: tuple(sorted(kept[worker])) for worker in sorted(kept)}


# Files do not change on all machines at once: a volume of a ConfigMap takes a minute.
_LATE_SECONDS: Final = 60.0
_SHOWN: Final = 5


class Unplaced:
    """The connectors that no worker runs, as far as a worker knows that does not lead.

    The worker that leads spreads those that it has itself. One that only another worker has is run by none,
    and neither is one that is given to a worker that does not have it. One thread looks, any may read.
    """

    def __init__(self, own_id: str, place: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._own_id = own_id
        self._place = place
        self._clock = clock
        self._since: Mapping[str, float] = {}
        self._problem: str | None = None

    @property
    def names(self) -> Collection[str]:
        """Those that no worker runs at present, for however short a time."""
        return self._since.keys()

    @property
    def problem(self) -> str | None:
        """Which none has run for a minute, and why, in a sentence; None without any."""
        return self._problem

    def look(self, workers: WorkersRecord | None, known: Collection[str]) -> None:
        """Compare what the workers run with what this one knows; None: that cannot be judged at present."""
        lacking: set[str] = set()
        unknown: set[str] = set()
        if workers is not None and self._own_id in workers.workers:
            lacking = set(workers.workers[self._own_id].connectors) - set(known)
            unknown = set(known).difference(*(one.connectors for one in workers.workers.values()))
        now = self._clock()
        since = {name: self._since.get(name, now) for name in lacking | unknown}
        late = {name for name, at in since.items() if now - at >= _LATE_SECONDS}
        problem = None if workers is None else self._sentence(workers.leader, lacking & late, unknown & late)
        if problem not in {None, self._problem}:
            _log.warning("connectors_not_run", error=problem)
        self._since, self._problem = since, problem

    def _sentence(self, leader: str, lacking: Collection[str], unknown: Collection[str]) -> str | None:
        found = []
        if lacking:
            found.append(f"this worker is to run {_first(lacking)}, which {self._place} does not have")
        if unknown:
            found.append(
                f"no worker is given {_first(unknown)}: {self._place} has them, and the worker that leads, "
                f"{leader}, does not"
            )
        if not found:
            return None
        return (
            f"{'; '.join(found)}. They run nowhere: workers of one group.id need the same connectors, from "
            "the same files (--connectors) or all by requests. Workers of other files need another group.id"
        )


def _first(names: Collection[str]) -> str:
    return and_more(sorted(names)[:_SHOWN], len(names))
