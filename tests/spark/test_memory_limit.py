"""A worker's memory limit lies below its container's, and holds."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark.memory import container_bytes, worker_bytes

GIB = 1 << 30


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param(1 * GIB, GIB // 2, id="half of a small one"),
        pytest.param(3 * GIB, 3 * GIB // 2, id="where both rules meet"),
        pytest.param(8 * GIB, 8 * GIB - 1536 * (1 << 20), id="all but what the driver needs"),
    ],
)
def test_the_limit_is_below_the_container(container: int, expected: int) -> None:
    """Whatever its size."""
    assert worker_bytes(container) == expected < container


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("sys/fs/cgroup/memory.max", "1073741824\n", GIB, id="cgroup v2"),
        pytest.param("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n", GIB, id="cgroup v1"),
        pytest.param("sys/fs/cgroup/memory.max", "max\n", None, id="no limit"),
        pytest.param("sys/fs/cgroup/memory.max", "9223372036854771712\n", None, id="no limit in v1's words"),
        pytest.param("elsewhere", "", None, id="no cgroup"),
    ],
)
def test_the_container_s_memory(tmp_path: Path, name: str, text: str, expected: int | None) -> None:
    """As the kernel shows it, never more than the machine's."""
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert container_bytes(tmp_path) == (container_bytes(Path("/nowhere")) if expected is None else expected)


def test_an_allocation_above_it_is_a_memory_error() -> None:
    """In the process and in what it forks, which the kernel would kill first."""
    program = """
import os
from spark.memory import limit_memory
limit_memory(300 << 20)
child = os.fork()
if child == 0:
    print(open("/proc/self/oom_score_adj").read().strip(), flush=True)
    try:
        bytearray(400 << 20)
    except MemoryError:
        print("MemoryError", flush=True)
    bytearray(100 << 20)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1000", "MemoryError"]


def _page_faults(prelude: str) -> int:
    """Pages that a new process had to be given anew while it made and freed chunks of a MiB."""
    program = f"""
import resource
{prelude}
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    # Three at a time, as a reader and a decoder hold them.
    chunks = [bytes(1 << 20) for _ in range(3)]
    del chunks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_freed_chunks_are_used_again() -> None:
    """Without a page fault for each of their pages, each time."""
    left_alone = _page_faults("")
    kept = _page_faults("from spark.memory import keep_freed_memory; keep_freed_memory()")
    # Three MiB are 768 pages, which have to come once.
    assert kept < 2 * 768 < left_alone / 2


def _heaps(prelude: str) -> int:
    """How many heaps of the C library a new process has in which a dozen threads have memory at once."""
    program = f"""
import ctypes, threading
{prelude}
barrier = threading.Barrier(13)

def hold():
    held = bytes(100_000)
    barrier.wait()
    barrier.wait()

threads = [threading.Thread(target=hold) for _ in range(12)]
for one in threads:
    one.start()
barrier.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = libc.fdopen(1, b"w")
libc.malloc_info(0, ctypes.c_void_p(out))
libc.fflush(ctypes.c_void_p(out))
barrier.wait()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.count("<heap nr=")


def test_threads_share_heaps() -> None:
    """What one thread has freed is another's, instead of lying in a heap for each thread.

    Mutation tried: without the limit there are thirteen.
    """
    assert _heaps("from spark.memory import keep_freed_memory; keep_freed_memory()") <= 4
    assert _heaps("") > 4
