"""How much memory a Python worker may take: less than its container has, so that the service outlives it.

An object that makes its worker grow without bound must cost that worker, and nothing else: then it is found
out as a suspect (docs/errors.md). Where the whole container dies with it, it would be read again and again.
Libraries that others load only because they are installed are kept out of our processes.
"""

import contextlib
import ctypes
import functools
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePosixPath
from typing import Final

# mallopt(3): from which size on memory is asked of the kernel by itself, and from how much on freed memory
# at the end of a heap is given back. Left alone, glibc asks for a chunk or a batch of messages at a time and
# gives it back, and the kernel clears each page again: a fifth of a worker's CPU.
_MMAP_THRESHOLD: Final = (-3, 16 * 1024 * 1024)
_TRIM_THRESHOLD: Final = (-1, 32 * 1024 * 1024)
# How many heaps there are. Left alone, glibc makes up to eight for each core, one for a thread, and each has
# what was freed in it for itself: a hundred MiB of a worker that restores csv, for no CPU less.
_ARENA_MAX: Final = (-8, 4)

TASKS_AT_ONCE: Final = "HEADRACE_TASKS_AT_ONCE"
"""Of the environment that Spark gives to Python workers: how many of them have work at the same time."""

_MIB: Final = 1024 * 1024
# What the driver (Python and JVM) needs next to a worker that grows, and each other worker at its largest
# (docs/operations.md#sizing). A quarter of a GiB of it is for what belongs to no process.
_DRIVER_BYTES: Final = 1136 * _MIB
_OTHER_WORKER_BYTES: Final = 400 * _MIB
_TASKS: Final = 2
# Of cgroup v2 and v1: the controller by its name in /proc/self/cgroup, where its folders are, and their file.
_LIMITS: Final = (
    ("", PurePosixPath("sys/fs/cgroup"), "memory.max"),
    ("memory", PurePosixPath("sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
)
# The kernel's own choice when memory is out: a worker before the driver and its JVM, which are at 0.
_KILLED_FIRST: Final = 1000


def container_bytes(root: Path = Path("/")) -> int:
    """Memory of the container or unit that this process is in, in bytes; of the machine if that is less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _limit_files(root):
        text = file.read_text().strip() if file.is_file() else ""
        if text.isdigit():  # else `max`
            limits.append(int(text))
    return min(limits)


def _limit_files(root: Path) -> Iterator[Path]:
    """Of the process's own cgroup and those above it, there or not; a container sees its own at the top."""
    listed = root / "proc/self/cgroup"
    lines = listed.read_text().splitlines() if listed.is_file() else []
    found = [line.split(":", 2) for line in lines]
    for controller, folder, name in _LIMITS:
        own = next((path for _, names, path in found if controller in names.split(",")), "/")
        # The host's path is not there in a container, and one that leads up is another's: the top counts.
        path = PurePosixPath("/" if ".." in own else own)
        for each in (path, *path.parents):
            yield root / folder / each.relative_to("/") / name


def tasks_at_once(environment: Mapping[str, str]) -> int:
    """How many workers have work at the same time, as the driver has said; two where it has not."""
    return int(environment.get(TASKS_AT_ONCE, _TASKS))


def worker_bytes(container: int, tasks: int) -> int:
    """What one of so many workers of such a container may take, in bytes: always less than the container."""
    others = _DRIVER_BYTES + (tasks - 1) * _OTHER_WORKER_BYTES
    return max(container // 2, container - others)


def limit_memory(size: int) -> None:
    """Have this process and its children get no more than so many bytes each; they are killed first, too.

    An allocation above it is a MemoryError, or ends the process where a library cannot say so.
    """
    # Address space would count libraries, and what allocators reserve and never use.
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard == resource.RLIM_INFINITY or size < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    # A sandbox without this file has the limit still.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_KILLED_FIRST))


@functools.cache
def keep_freed_memory() -> None:
    """Have this process use freed memory again, some tens of MiB, instead of giving it back at once.

    And in all of its threads, of which each would have a heap of its own: to be called before they start.

    Does nothing with a C library that knows no such setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for name, size in (_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX):
        mallopt(name, size)


UNUSED: Final = ("pandas",)


class _Unused:
    """Answers, as a finder of modules, that the unused ones are not there."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Nothing: the finders after it are asked. ModuleNotFoundError for an unused one."""
        if name in UNUSED:
            raise ModuleNotFoundError(f"{name} is not loaded: nothing of Headrace uses it", name=name)
        return None


def refuse_unused() -> None:
    """Have them not found in this process: where PySpark and pyarrow find pandas it takes half a second."""
    sys.meta_path.insert(0, _Unused())
