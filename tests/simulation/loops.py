"""asyncio in the kernel's time: a loop that waits for its timers and for calls from other threads alone."""

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

from tests.simulation.kernel import Actor, Kernel


class _Selector(selectors.BaseSelector):
    """Selects nothing: simulated connections are no files."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._actor: Actor | None = None
        self._is_woken = False

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See BaseSelector."""
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """See BaseSelector."""
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """See BaseSelector."""
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until the time is over, or somebody wakes the loop."""
        if timeout is not None and timeout <= 0:
            return []
        if not self._is_woken:
            self._actor = self._kernel.current
            try:
                self._kernel.park(timeout)
            finally:
                self._actor = None
        self._is_woken = False
        return []

    def wake(self) -> None:
        """End a wait, or the next one."""
        self._is_woken = True
        if self._actor is not None:
            self._kernel.unpark(self._actor)


class _Task(asyncio.Task[Any]):
    """A task by its number: asyncio keeps tasks in sets, and cancels them in the order of those."""

    def __init__(self, kernel: Kernel, coro: Any, **given: Any) -> None:
        self._number = kernel.number()
        super().__init__(coro, name=f"task-{self._number}", **given)

    def __hash__(self) -> int:
        # An address, which is the usual one, is another in each run.
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimulatedEventLoop(asyncio.SelectorEventLoop):
    """The loop of one simulated thread."""

    def __init__(self, kernel: Kernel) -> None:
        self._waker = _Selector(kernel)
        super().__init__(self._waker)
        self._tasks: list[_Task] = []

        def task(loop: asyncio.AbstractEventLoop, coro: Any, **given: Any) -> _Task:
            self._tasks.append(made := _Task(kernel, coro, loop=loop, **given))
            return made

        self.set_task_factory(task)

    def close(self) -> None:
        """See AbstractEventLoop. Its tasks are forgotten: asyncio looks through those of all loops."""
        super().close()
        while self._tasks:
            asyncio.tasks._unregister_task(self._tasks.pop())

    def _write_to_self(self) -> None:
        self._waker.wake()
