"""The format where drivers and executors die, on a standalone cluster, and asked for by a Connect client."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
import pytest

from localstack.cluster import cluster
from localstack.ports import HOST
from tests.support.connect_server import connect_server
from tests.support.short_spark import short_lived
from tests.support.until import until_sync

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = [pytest.mark.parts, pytest.mark.timeout(900)]

_ROOT: Final = Path(__file__).resolve().parents[3]
_DELTALAKE: Final = _ROOT / "localstack/deltalake.lock"
_OBJECTS: Final = 24
_ROWS: Final = 2000
_SECONDS: Final = 400


@pytest.fixture
def given(s3: "S3Client", bucket: str, s3_endpoint: str, tmp_path: Path) -> dict[str, Any]:
    """What the program is given: a bucket of numbered rows, read three objects a batch."""
    for number in range(_OBJECTS):
        rows = b"".join(b'{"n":%d}\n' % n for n in range(number * _ROWS, (number + 1) * _ROWS))
        s3.put_object(Bucket=bucket, Key=f"in/{number:03}.jsonl", Body=rows)
    (tmp_path / "sink").mkdir()
    return {
        "master": "local[2]",
        "conf": {
            **short_lived(),
            "spark.ui.enabled": "false",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.sql.shuffle.partitions": "2",
            # Code that is made for so few rows is not worth its making.
            "spark.sql.codegen.wholeStage": "false",
            "spark.executorEnv.PYTHONPATH": str(_ROOT),
        },
        "options": {
            "path": f"s3://{bucket}/in/",
            "aws.s3.endpoint": s3_endpoint,
            "aws.access.key.id": "test",
            "aws.secret.access.key": "test",
            "state.path": str(tmp_path / "log"),
            "maxFilesPerTrigger": "3",
            "rows": "columns",
        },
        "sink": str(tmp_path / "sink"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }


class Program:
    """The program as a process of its own group, with its output in files: a full pipe would hold it up."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._out = Path(given["sink"]).with_name("program.out")
        self._err = self._out.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [
                    *("env", f"PYSPARK_PYTHON={sys.executable}", f"PYTHONPATH={_ROOT}"),
                    *(sys.executable, str(Path(__file__).with_name("frames_program.py")), json.dumps(given)),
                ],
                cwd=_ROOT,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def is_over(self) -> bool:
        """Whether it has ended; it has to end without an error."""
        code = self.process.poll()
        assert code in (None, 0), self._err.read_text()[-3000:]
        return code == 0

    def kill(self) -> None:
        """End it with all that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> None:
        """Wait for its end, which has to be without an error."""
        until_sync(self.is_over, seconds=_SECONDS, what="the program has ended")
        assert json.loads(self._out.read_text().splitlines()[-1]) == {"error": None}


@contextmanager
def program(given: dict[str, Any]) -> Iterator[Program]:
    """A running program; killed at the end."""
    running = Program(given)
    try:
        yield running
    finally:
        running.kill()


def finished(given: dict[str, Any]) -> None:
    """The program, run to its end without an error."""
    with program(given) as running:
        running.finish()


def numbers(folder: Path) -> Counter[int]:
    """How often each number is in the sink."""
    files = [path for path in folder.rglob("*.parquet") if "_temporary" not in path.parts]
    return Counter(n for path in files for n in pq.ParquetFile(path).read().column("n").to_pylist())


def begun(given: dict[str, Any]) -> int:
    """How many batches were begun."""
    return len({path.name.split("-")[1] for path in Path(given["sink"]).glob("begun-*")})


def until_begun(given: dict[str, Any], running: Program, batches: int) -> None:
    """Return when so many batches were begun, or the program has ended."""
    until_sync(
        lambda: running.is_over() or begun(given) >= batches,
        seconds=_SECONDS,
        what=f"{batches} batches are begun",
    )


_ALL: Final = Counter(range(_OBJECTS * _ROWS))


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.long)])
def test_drivers_that_are_killed(given: dict[str, Any], kills: int) -> None:
    """In the middle of a batch, again and again: every row is in the sink, and once."""
    # Two batches before each kill, and one behind the last: each costs seconds of CPU.
    given["options"]["maxFilesPerTrigger"] = str(_OBJECTS // (2 * kills + 1))
    for batches in range(2, 2 * kills + 2, 2):
        with program(given) as running:
            until_begun(given, running, batches)
    finished(given)

    assert numbers(Path(given["sink"])) == _ALL


@pytest.mark.long
def test_a_cluster_whose_executors_are_killed(given: dict[str, Any], tmp_path: Path) -> None:
    """Spark runs their tasks again, on partitions that are the same."""
    with cluster(tmp_path) as found:
        given["master"] = found.master
        with program(given) as running:
            for batches in (1, 3):
                until_begun(given, running, batches + 1)
                for pid in executors(found.workers):
                    os.kill(pid, signal.SIGKILL)
            running.finish()

    assert numbers(Path(given["sink"])) == _ALL


def executors(workers: tuple[int, ...]) -> list[int]:
    """The executors that these workers have started."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent in workers:
            found.append(int(path.name))
    return found


@pytest.mark.long
def test_a_delta_table(given: dict[str, Any], tmp_path: Path) -> None:
    """A batch that the table has and Spark does not know of comes again, and is passed over by its number.

    By Delta's library for Python: its own for Spark is of older Sparks.
    """
    packages = tmp_path / "packages"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "--target", str(packages), "-r", str(_DELTALAKE)], check=True)
    given |= {"packages": str(packages), "dies_in": 2}
    with program(given) as running:
        until_sync(
            lambda: running.process.poll() is not None, seconds=_SECONDS, what="the program has killed itself"
        )
    finished({**given, "dies_in": None})

    sink = Path(given["sink"])
    assert [path.name for path in sink.glob("passed-over-*")] == ["passed-over-2"]
    assert in_delta(sink / "delta") == _ALL


def in_delta(table: Path) -> Counter[int]:
    """How often each number is in a table to which rows were only added."""
    entries = [
        json.loads(line) for log in table.glob("_delta_log/*.json") for line in log.read_text().splitlines()
    ]
    files = [table / entry["add"]["path"] for entry in entries if "add" in entry]
    return Counter(n for path in files for n in pq.ParquetFile(path).read().column("n").to_pylist())


@pytest.mark.long
def test_a_query_of_a_connect_client(given: dict[str, Any], tmp_path: Path) -> None:
    """The server's processes find the format, read and write."""
    conf = {"spark.executorEnv.PYTHONPATH": str(_ROOT)}
    with connect_server(tmp_path, conf=conf) as server:
        finished({**given, "remote": server.url, "conf": {}, "is_plain": True})

    assert numbers(Path(given["sink"]) / "plain") == _ALL


@pytest.mark.long
def test_a_driver_that_is_killed_while_it_writes(
    given: dict[str, Any], s3: "S3Client", tmp_path: Path
) -> None:
    """As soon as a batch has named its objects: each number is in one object all the same."""
    bucket = given["options"]["path"].split("/")[2]
    state = tmp_path / "written"
    same = {name: given["options"][name] for name in given["options"] if name.startswith("aws.")}
    given["writes"] = {
        **same,
        "path": f"s3://{bucket}/out/",
        "state.path": str(state),
        "rotate.records": "100",
        "output.format": "jsonl",
        "file.compression.type": "none",
    }

    def is_named(running: Program, batches: int) -> bool:
        return running.is_over() or len(list(state.glob("writes/*/*.json"))) >= batches

    for batches in (1, 3, 4, 6):
        with program(given) as running:
            look = partial(is_named, running, batches)
            until_sync(look, seconds=_SECONDS, what=f"{batches} batches are named")
    finished(given)

    rows: Counter[int] = Counter()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="out/"):
        for entry in page["Contents"]:
            lines = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read().splitlines()
            rows.update(json.loads(line)["value"] for line in lines)
    assert rows == _ALL
