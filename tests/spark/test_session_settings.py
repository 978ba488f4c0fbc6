"""What Spark is told, and that its processes end with ours."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.accumulators import _start_update_server

from headrace.model.errors import Unavailable
from ingest.service.spark_startup import OwnSlots
from spark.installed.sitecustomize import FOLDER, without_archives
from spark.jvm import Jvm
from spark.session import build_context, end_accumulators
from spark.spark_conf import conf_of, is_local, spark_conf
from tests.ingest.checks.findings.configured import configured
from tests.support.until import until_sync

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[4,1]", True),
        ("local-cluster[1,1,1]", False),
        ("k8s://x", False),
    ],
)
def test_which_masters_are_local(master: str, *, local: bool) -> None:
    """Executors in the driver's own JVM, or elsewhere."""
    assert is_local(master) is local


def test_what_the_protocol_needs_wins_over_all() -> None:
    """Whatever came through."""
    conf = spark_conf({"spark.task.maxFailures": "4", "spark.speculation": "true"}, name="n")

    assert (conf["spark.task.maxFailures"], conf["spark.speculation"]) == ("1", "false")


_WITHOUT_CONNECT = """
import sys, time
from ingest.service.spark_startup import SparkStartup
from headrace.vendors.load import load
from headrace.model.errors import HeadraceError
sys.modules["pandas"] = None
__file__ = "program.py"  # PySpark takes a program without one for its own doctests
text = '{"name": "n", "bootstrap.servers": "b:1", "aws.s3.bucket.name": "bucket", "topic": "t",'
text += '"file.name.template": ".*", "spark.remote": "sc://127.0.0.1:9"}'
settings = load(text, kind="json", environment={}, read_file=str)
startup = SparkStartup(settings.spark, name="n", deadline=0, prepare=print)
startup.start()
try:
    while not startup.is_up():
        time.sleep(0.01)
except HeadraceError as error:
    print(type(error).__name__, error)
"""


def test_spark_connect_without_its_packages_names_the_extra() -> None:
    """They are an extra: 100 MB that only `spark.remote` needs."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_CONNECT], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.stdout.startswith("InvalidConfiguration spark.remote needs the packages of Spark Connect (")
    assert "install headrace[connect], or build the image with" in done.stdout
    assert done.stdout.count("\n") == 1


_WITHOUT_PANDAS = """
import sys
sys.modules["pandas"] = None
from spark.session import build_context, stop_context
from spark.slots import ContextJobs
from spark.slots.jobs import warm_workers
from spark.task.entry import NoWork
session = build_context({"spark.master": "local[1]"}, name="n")
warm_workers(ContextJobs(session), NoWork(), 1)
stop_context(session)
"""


@pytest.mark.long
def test_tasks_run_without_pandas() -> None:
    """It is part of an extra, and the image has none."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PANDAS], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


# Java then resolves no name but those in the file: not that of the machine either.
_WITHOUT_A_NAME = """
import os, socket, sys
socket.gethostname = lambda: "no-such-machine.invalid"
from spark.jvm import Jvm
from spark.spark_conf import spark_conf
given = {"spark.master": "local[1]", "spark.driver.extraJavaOptions": "-Djdk.net.hosts.file=" + sys.argv[1]}
jvm = Jvm()
jvm.spawn(spark_conf(given, name="n"))
assert "pyspark" not in sys.modules, "the JVM waits for PySpark"
from spark.session import build_context, stop_context
context = build_context(given, name="n", jvm=jvm)
assert jvm._process is context._gateway.proc, "another JVM was started"
def run(given):
    yield sum(given), os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
print(*context.parallelize(range(3), 1).mapPartitions(run).collect())
stop_context(context)
"""


def test_the_name_of_the_machine_needs_no_address(tmp_path: Path) -> None:
    """As in a container of the host's network, or in a chroot; its JVM starts before PySpark is loaded.

    Nor with the keys of AWS in the environment, which tasks have: Spark asks for that address to note where
    they come from. Mutation tried: where they are not hidden from it, the JVM ends at once.
    """
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_A_NAME, str(hosts)],
        cwd=ROOT,
        env=os.environ | {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"},  # noqa: TID251  # a child's
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "(3, 'key', 'secret')\n"), done.stdout + done.stderr


def test_a_jvm_that_nobody_came_to_use_ends() -> None:
    """A start that found something wrong has spawned one all the same."""
    jvm = Jvm()
    settings = configured({"spark.master": "local[1]"})
    slots = OwnSlots(settings, deadline=0, jvm=jvm)
    jvm.spawn(conf_of(settings.spark, name="n"))
    assert jvm._process is not None
    pid = jvm._process.pid
    assert Path(f"/proc/{pid}").exists()

    slots.close()

    assert not Path(f"/proc/{pid}").exists()


def test_what_was_given_wins_over_our_defaults() -> None:
    """Except where the protocol decides."""
    conf = spark_conf({"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dmine=1"}, name="n")

    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert conf["spark.driver.host"] == "127.0.0.1"


def test_a_cluster_gets_no_loopback() -> None:
    """Its executors have to reach the driver."""
    conf = spark_conf({"spark.master": "spark://host:7077"}, name="n")

    assert "spark.driver.host" not in conf
    assert "spark.python.daemon.module" not in conf


# pyspark leaves the pipe to a JVM that did not start to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_session_that_cannot_start_is_one_sentence() -> None:
    """Naming the option."""
    with pytest.raises(Unavailable, match=r"spark\.master='nonsense': its JVM"):
        build_context({"spark.master": "nonsense"}, name="n")


def test_the_workers_parent_starts_no_thread() -> None:
    """A fork carries no threads over: what they held would be held for ever."""
    code = (
        "import os, spark.daemon; spark.daemon.preload();"
        "assert len(os.listdir('/proc/self/task')) == 1, 'a preloaded library starts a thread'"
    )

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env={"OPENBLAS_NUM_THREADS": "1"})


def test_a_worker_loads_nothing_that_no_task_uses() -> None:
    """Each is memory of every worker, and a part of every start."""
    code = (
        "import sys, spark.daemon; spark.daemon.preload();"
        "assert not {'boto3', 's3transfer', 'polars'} & set(sys.modules), 'no task uses them all'"
    )

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env={"OPENBLAS_NUM_THREADS": "1"})


def test_a_worker_loads_no_pandas() -> None:
    """Which pyarrow takes up at its first array where it finds it, and no task uses: it has 33 MiB."""
    code = (
        "import sys, spark.daemon; spark.daemon.preload();"
        "import numpy as np, pyarrow as pa;"
        "assert pa.array([1, None]).to_pylist() == [1, None];"
        "assert pa.array(np.array([1, 2])).to_numpy().sum() == 3;"
        "assert pa.RecordBatch.from_pydict({'a': ['x']}).num_rows == 1;"
        "assert 'pandas' not in sys.modules, 'pandas is loaded'"
    )

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env={"OPENBLAS_NUM_THREADS": "1"})


def _end(jvm: socket.socket, is_noticed: threading.Event) -> None:
    jvm.close()
    assert is_noticed.wait(60)


def test_the_server_of_accumulators_is_not_waited_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """PySpark's looks once a second whether it is to end: a second of every stop of a service."""
    seconds: list[float] = []
    # Where others have the cores one may take long; with PySpark's look each does.
    while len(seconds) < 20 and min(seconds, default=1.0) >= 0.2:
        number = len(seconds)
        place = str(tmp_path / str(number))
        server: Any = _start_update_server("", is_unix_domain_sock=True, socket_path=place)
        with closing(socket.socket(socket.AF_UNIX)) as jvm:
            jvm.connect(place)
            # No updates: it answers, and looks for more from then on.
            jvm.sendall(bytes(4))
            assert jvm.recv(1) == b"\x01"

            is_over = threading.Event()
            server.service_actions = is_over.set
            began = time.monotonic()
            end_accumulators(server, partial(_end, jvm, is_over))
        seconds.append(time.monotonic() - began)

    assert min(seconds) < 0.2
    assert capfd.readouterr() == ("", "")


def test_the_archives_of_another_spark_stay(tmp_path: Path) -> None:
    """That of SPARK_HOME need not be the one that PySpark is installed with."""
    home = Path(pyspark.__file__).parent
    lib = home / "python/lib"
    own = [str(lib / "pyspark.zip"), str(lib / "py4j-1-src.zip"), str(home / "jars/spark-core.jar")]
    others = [str(tmp_path / "python/lib/pyspark.zip"), str(tmp_path / "mine.zip")]

    assert without_archives([*own, *others, *sys.path]) == [*others, *sys.path]


@pytest.mark.parametrize("is_hidden", [False, True], ids=["only ours", "another hook"])
def test_a_process_that_finds_the_hook_imports_what_is_installed(tmp_path: Path, *, is_hidden: bool) -> None:
    """From Python's first line on; the hook that it would have run without ours is run, too."""
    home = Path(pyspark.__file__).parent
    lib = home / "python/lib"
    archives = [lib / "pyspark.zip", *lib.glob("py4j-*.zip"), *home.glob("jars/spark-core_*.jar")]
    if is_hidden:
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.others = 1\n")
    path = os.pathsep.join(map(str, [*archives, FOLDER, tmp_path]))
    shown = "import sys, pyspark, sitecustomize; print(pyspark.__file__, hasattr(sys, 'others'), sys.path)"
    done = subprocess.run(
        [sys.executable, "-c", shown], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
    assert done.stdout.startswith(f"{pyspark.__file__} {is_hidden} ")
    assert not any(str(place) in done.stdout for place in [*archives, FOLDER])


def test_without_an_installed_pyspark_sparks_archives_stay(tmp_path: Path) -> None:
    """There is nothing else to import it from."""
    path = [str(tmp_path / "python/lib/pyspark.zip"), str(tmp_path)]

    assert without_archives(path) == path


@pytest.mark.parametrize("sent", [b"", b"nonsense"], ids=["ended before it began", "ended while it ran"])
def test_a_worker_that_the_jvm_has_left_ends_without_a_word(sent: bytes) -> None:
    """As at each stop and changed configuration: nobody takes its answer, and there is nothing to report."""
    code = (
        "import socket, sys, spark.daemon; from pyspark.daemon import worker; spark.daemon.end_quietly();"
        "jvm, ours = socket.socketpair(); sys.argv = ['daemon', 'pyspark.worker'];"
        f"jvm.sendall({sent!r}); jvm.close();"
        "sys.exit(0 if worker(ours, True) != 0 else 'it would be used again')"
    )

    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True)

    assert (ended.returncode, ended.stderr.decode()) == (0, "")


def test_a_killed_driver_takes_its_processes_along(tmp_path: Path) -> None:
    """Kill -9: the JVM reads the end of a pipe, the workers that of theirs; stderr holds JSON lines only.

    On a machine whose name has no address, as one of the tests above.
    """
    code = """
import sys
from headrace.process.logs import configure
from spark.jvm import Jvm
from spark.spark_conf import spark_conf
configure()
given = {"spark.master": "local[1]", "spark.driver.extraJavaOptions": "-Djdk.net.hosts.file=" + sys.argv[1]}
jvm = Jvm()
jvm.spawn(spark_conf(given, name="doomed"))
assert "pyspark" not in sys.modules, "the JVM waits for PySpark"
from spark.session import build_context
session = build_context(given, name="doomed", jvm=jvm)
assert jvm._process is session._gateway.proc, "another JVM was started"
def run(given):
    import os
    for _ in given: pass
    yield os.getpid()
(worker,) = session.parallelize(range(1), 1).mapPartitions(run).collect()
print(session._gateway.proc.pid, worker, flush=True)
sys.stdin.read()
"""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    errors = tmp_path / "stderr"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", code, str(hosts)],
            cwd=ROOT,
            # As the test above has it.
            env={name: value for name, value in os.environ.items() if name[:4] != "AWS_"},  # noqa: TID251  # a child's
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        ) as driver,
    ):
        assert driver.stdout is not None
        pids = [int(word) for word in driver.stdout.readline().split()]
        assert len(pids) == 2, errors.read_text()

        driver.send_signal(signal.SIGKILL)

        until_sync(lambda: not any(is_alive(pid) for pid in pids), seconds=60, what="JVM and worker ended")
    assert [line for line in errors.read_text().splitlines() if not line.startswith("{")] == []


def is_alive(pid: int) -> bool:
    """Whether the process runs."""
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False


_REFUSED = """
from spark.session import build_context
build_context({"spark.master": "local[1]", "spark.driver.memory": "100m"}, name="n")
"""


def test_what_spark_refuses_is_a_sentence() -> None:
    """Its words come from the JVM, which had been ended before it was asked for them: a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", _REFUSED], cwd=ROOT, capture_output=True, check=False, text=True, timeout=120
    )
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith(
        "headrace.model.errors.Unavailable: Spark did not start with spark.master='local[1]': "
        "[INVALID_DRIVER_MEMORY.SYSTEM_MEMORY] Insufficient driver memory: "
    )
    assert "spark.driver.memory" in said
    assert "SQLSTATE" not in said
