"""What every process shows of itself: its build, itself, and the processes that it started."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from email.message import Message
from importlib.metadata import PathDistribution, version
from pathlib import Path
from resource import getpagesize
from typing import Any

import pytest

from ingest.connect.hosted_connector import HostedConnector
from ingest.connect.worker_view import WorkerFigures, WorkerPages
from ingest.http.http_server import Request
from ingest.http.metrics import Metrics, ProcessMetrics, commit_of
from ingest.http.snapshot import Snapshot, SnapshotHolder
from ingest.service.endpoints import endpoints
from tests.support.until import until_sync

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
STANDARD = {
    "process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes",
    "process_open_fds", "process_max_fds", "process_start_time_seconds",
}  # fmt: skip
OURS = {
    "headrace_build_info",
    "headrace_until_idle",
    "headrace_child_processes",
    "headrace_child_resident_memory_bytes",
}


def families(text: str) -> dict[str, str]:
    """Name and type from the TYPE lines of an exposition."""
    return dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))


def sample(text: str, name: str) -> float:
    """The value of the one sample that begins so."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize("role", ["source", "sink", "worker"])
def test_the_build_is_one_series_with_what_runs_as_labels(role: str) -> None:
    """What a dashboard joins to show who runs which version."""
    text = ProcessMetrics(role).exposition().decode()
    (line,) = re.findall(r"^headrace_build_info\{(.*)\} 1\.0$", text, re.MULTILINE)
    found = dict(re.findall(r'(\w+)="([^"]*)"', line))

    assert found == {
        "version": version("headrace"),
        "commit": found["commit"],
        "python": ".".join(map(str, sys.version_info[:3])),
        "spark": version("pyspark"),
        "role": role,
    }


@pytest.mark.parametrize("until_idle", [False, True])
def test_it_shows_whether_it_ends_by_itself(until_idle: bool) -> None:
    """So that no alert misses it."""
    text = ProcessMetrics("source", until_idle=until_idle).exposition().decode()

    assert sample(text, "headrace_until_idle") == until_idle


def test_all_are_in_the_document_with_type_and_labels_and_no_other() -> None:
    """The table of the process."""
    text = DOCUMENT.read_text().partition("\n## The process\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*)\|", text, re.MULTILINE)
    shown = ProcessMetrics("source").exposition().decode()
    labels = {
        name: sorted(re.findall(r"(\w+)=", inside))
        for name, inside in re.findall(r"^(\w+)\{(.*)\} ", shown, re.MULTILINE)
    }

    assert {name: kind for name, kind, _ in rows} == families(shown)
    assert families(shown).keys() == STANDARD | OURS
    assert {name: sorted(re.findall(r"`(\w+)`", names)) for name, _, names in rows if "`" in names} == labels


def test_the_process_is_this_one() -> None:
    """Not its group, and not its children."""
    before = sample(ProcessMetrics("sink").exposition().decode(), "process_open_fds")
    with Path(os.devnull).open() as _file:
        assert sample(ProcessMetrics("sink").exposition().decode(), "process_open_fds") == before + 1


def make_proc(folder: Path, processes: dict[int, tuple[str, int, int]]) -> Path:
    """A /proc in which this process is 100: command, parent and resident pages by number."""
    for pid, (command, parent, pages) in processes.items():
        (folder / str(pid)).mkdir()
        zeros = " 0" * 19
        (folder / str(pid) / "stat").write_text(f"{pid} ({command}) S {parent}{zeros} {pages} 0\n")
    (folder / "self").symlink_to("100")
    return folder


def test_processes_below_are_counted_by_what_they_are(tmp_path: Path) -> None:
    """Children of children too, a lower number than the parent's included; other processes are not ours."""
    proc = make_proc(
        tmp_path,
        {
            1: ("init", 0, 7),
            100: ("headrace", 1, 1000),
            200: ("java", 100, 40),
            300: ("python (daemon)", 200, 20),
            30: ("python", 300, 10),
            31: ("python", 300, 10),
            400: ("java", 1, 9999),
        },
    )
    shown = ProcessMetrics("source", proc=proc).exposition().decode()

    assert sample(shown, 'headrace_child_processes{kind="spark_jvm"}') == 1
    assert sample(shown, 'headrace_child_processes{kind="spark_python"}') == 3
    memory = "headrace_child_resident_memory_bytes"
    assert sample(shown, memory + '{kind="spark_jvm"}') == 40 * getpagesize()
    assert sample(shown, memory + '{kind="spark_python"}') == 40 * getpagesize()


def test_a_real_child_is_among_them() -> None:
    """The fields are where Linux has them."""

    def pythons() -> float:
        return sample(
            ProcessMetrics("source").exposition().decode(), 'headrace_child_processes{kind="spark_python"}'
        )

    before = pythons()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        until_sync(lambda: pythons() == before + 1, seconds=60, what="the child being counted")
        assert child.stdin is not None
        child.stdin.write(b"\n")
    assert pythons() == before


def test_without_proc_the_build_is_all() -> None:
    """A machine without /proc has no figures of processes, and no failure."""
    shown = ProcessMetrics("source", proc=Path("/nowhere")).exposition().decode()

    assert "headrace_build_info{" in shown
    assert "process_open_fds" not in shown
    assert 'headrace_child_processes{kind="spark_jvm"} 0.0' in shown


class _NoConnectors:
    """A worker on which nothing runs."""

    def overview(self) -> dict[str, Any]:
        return {}

    def hosted(self) -> Mapping[str, HostedConnector]:
        return {}

    def problems(self) -> list[str]:
        return []

    def figures(self) -> WorkerFigures:
        return WorkerFigures(leads=False, known=0, assigned=0, unplaced=0)


def shown_by_worker() -> str:
    """What a worker's `/metrics` answers."""
    request = Request(method="GET", path="/metrics", query="", headers=Message(), body=b"")
    body = WorkerPages(_NoConnectors()).answer(request).body
    assert isinstance(body, bytes)
    return body.decode()


def shown_by_run() -> str:
    """What `/metrics` of `headrace run` answers."""
    holder = SnapshotHolder(Snapshot(name="orders", version="1"))
    body = endpoints(holder, Metrics(dict), ProcessMetrics("sink"))["/metrics"]().body
    assert isinstance(body, bytes)
    return body.decode()


@pytest.mark.parametrize("shown", [shown_by_worker, shown_by_run])
def test_run_and_worker_show_them_once(shown: Callable[[], str]) -> None:
    """A family that stands twice makes Prometheus refuse the whole page."""
    types = re.findall(r"^# TYPE (\S+ \S+)$", shown(), re.MULTILINE)

    assert len(types) == len(set(types))
    assert {kind.split()[0] for kind in types} >= STANDARD | OURS


@pytest.mark.parametrize(
    ("origin", "commit"),
    [
        (None, ""),
        ('{"url": "file:///tree", "dir_info": {"editable": true}}', ""),
        ('{"url": "https://git/x", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}', "c0ffee"),
    ],
    ids=["wheel", "editable", "git"],
)
def test_the_commit_is_what_the_installation_says(tmp_path: Path, origin: str | None, commit: str) -> None:
    """PEP 610, as pip writes it."""
    (tmp_path / "METADATA").write_text("Name: headrace\nVersion: 1\n")
    if origin is not None:
        (tmp_path / "direct_url.json").write_text(origin)

    assert commit_of(PathDistribution(tmp_path), tmp_path / "COMMIT") == commit
    (tmp_path / "COMMIT").write_text("abc-dirty\n")
    assert commit_of(PathDistribution(tmp_path), tmp_path / "COMMIT") == "abc-dirty"
