"""A worker's memory limit lies below its container's, and holds."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from spark.memory import TASKS_AT_ONCE, container_bytes, tasks_at_once, worker_bytes
from spark.slots import ContextJobs

MIB = 1 << 20
GIB = 1 << 30
DEPLOY = Path(__file__).parents[2] / "deploy"
# The driver's Python and its JVM, and a worker that does not grow, as docs/operations.md has them.
DRIVER, WORKER = 900 * MIB, 400 * MIB


@pytest.mark.parametrize(
    ("container", "tasks", "expected"),
    [
        pytest.param(1 * GIB, 2, GIB // 2, id="half of a small one"),
        pytest.param(3 * GIB, 2, 3 * GIB // 2, id="where both rules meet"),
        pytest.param(8 * GIB, 2, 8 * GIB - 1536 * MIB, id="all but what the driver and another need"),
        pytest.param(8 * GIB, 1, 8 * GIB - 1136 * MIB, id="alone"),
        pytest.param(5 * GIB, 4, 5 * GIB - 2336 * MIB, id="next to three"),
        pytest.param(4 * GIB, 64, 2 * GIB, id="half where others would have nothing"),
    ],
)
def test_the_limit_is_below_the_container(container: int, tasks: int, expected: int) -> None:
    """Whatever its size."""
    assert worker_bytes(container, tasks) == expected < container


@pytest.mark.parametrize(
    "file", ["kubernetes/deployment.yaml", "kubernetes/worker/deployment.yaml", "helm/headrace/values.yaml"]
)
def test_a_worker_that_grows_ends_before_the_container_is_full(file: str) -> None:
    """With a slot for each core: a kubelet has the kernel kill all processes of a container at once."""
    found = yaml.safe_load((DEPLOY / file).read_text())
    if "spec" in found:
        (found,) = found["spec"]["template"]["spec"]["containers"]
    limits = found["resources"]["limits"]
    amount, unit = limits["memory"][:-2], limits["memory"][-2:]
    container, tasks = int(amount) * {"Mi": MIB, "Gi": GIB}[unit], int(limits["cpu"])

    assert DRIVER + (tasks - 1) * WORKER + worker_bytes(container, tasks) <= container


@pytest.mark.parametrize(
    ("master", "tasks_max", "expected"),
    [
        pytest.param("local[8]", None, 8, id="a slot for each core"),
        pytest.param("local[8]", 3, 3, id="fewer"),
        pytest.param("local[8]", 20, 8, id="more wait for their turn"),
        pytest.param("spark://host:7077", None, 2, id="a cluster, whose workers are elsewhere"),
    ],
)
def test_a_worker_is_told_how_many_there_are(master: str, tasks_max: int | None, expected: int) -> None:
    """By the environment of its first task, before any was started."""
    conf = {"spark.driver.host": "127.0.0.1"}
    context: Any = SimpleNamespace(
        master=master, getConf=lambda: conf, defaultParallelism=8, environment={"PYTHONPATH": "/mine"}
    )
    jobs = ContextJobs(context, tasks_max=tasks_max)

    assert jobs.slots == 8
    assert context.environment.pop("PYTHONPATH") == "/mine"
    assert tasks_at_once(context.environment) == expected
    assert set(context.environment) <= {TASKS_AT_ONCE}


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


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        pytest.param(
            "0::/system.slice/headrace.service",
            {"sys/fs/cgroup/system.slice/headrace.service/memory.max": GIB},
            GIB,
            id="a unit's MemoryMax",
        ),
        pytest.param(
            "0::/system.slice/headrace.service",
            {
                "sys/fs/cgroup/system.slice/headrace.service/memory.max": 2 * GIB,
                "sys/fs/cgroup/system.slice/memory.max": GIB,
            },
            GIB,
            id="the slice has less",
        ),
        pytest.param(
            "4:cpu,memory:/a:b\n0::/",
            {"sys/fs/cgroup/memory/a:b/memory.limit_in_bytes": GIB},
            GIB,
            id="cgroup v1",
        ),
        pytest.param(
            "0::/docker/5fad", {"sys/fs/cgroup/memory.max": GIB}, GIB, id="a path of the host's, as v2 has it"
        ),
        pytest.param(
            "0::/../other", {"sys/fs/cgroup/memory.max": GIB, "sys/fs/other/memory.max": 1}, GIB, id="outside"
        ),
        pytest.param(
            "0::/mine", {"sys/fs/cgroup/other/memory.max": GIB}, None, id="the limit of another cgroup"
        ),
    ],
)
def test_the_memory_of_its_own_cgroup(
    tmp_path: Path, own: str, files: dict[str, int], expected: int | None
) -> None:
    """Without a container it is not the one at the top, which has no limit."""
    for name, text in {"proc/self/cgroup": own, **{name: str(size) for name, size in files.items()}}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
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
