"""Which of xdist's workers runs which tests: one computes all along, and units are left for the end."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from xdist.remote import Producer

from tests.support import groups

_UNITS: Final = ("headrace/formats/test_csv.py", "headrace/formats/test_jsonl.py", "source_tree")
_SERVICES: Final = (
    "shared_worker",
    "listeners/test_head.py",
    "listeners/test_listeners.py",
    "faults/test_short_campaign.py",
)
_TESTS_OF_EACH: Final = 3


class _Worker:
    """What xdist takes for a worker: it keeps what it is to run."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw")
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def _nodeids(group: str) -> list[str]:
    file = groups.SHARING[group][0] if group in groups.SHARING else group
    return [f"tests/{file}::test_{number}" for number in range(_TESTS_OF_EACH)]


def _begun(names: Sequence[str], workers: Sequence[_Worker]) -> Any:
    """A scheduler that has dealt out the first groups."""
    config = SimpleNamespace(
        option=SimpleNamespace(loadscopereorder=False), getvalue=lambda _: ["popen"] * len(workers)
    )
    dealer = groups.scheduler(config, SimpleNamespace(loadscopesched=Producer("dealt", enabled=False)))
    for worker in workers:
        dealer.add_node(worker)
    for worker in workers:
        dealer.add_node_collection(worker, [test for name in names for test in _nodeids(name)])
    dealer.schedule()
    return dealer


def _turns(names: Sequence[str], worker: _Worker) -> list[str]:
    """The groups a worker was given, in its order."""
    return list(dict.fromkeys(names[index // _TESTS_OF_EACH] for index in worker.given))


def test_one_worker_begins_with_units_and_the_others_with_services() -> None:
    """Whatever comes first in the collection."""
    for names in ((*_SERVICES, *_UNITS), (*_UNITS, *_SERVICES)):
        workers = [_Worker() for _ in range(3)]

        _begun(names, workers)

        assert [_turns(names, worker) for worker in workers] == [[_UNITS[0]], [_SERVICES[0]], [_SERVICES[1]]]


@pytest.mark.parametrize("busy", [0, 1])
def test_who_has_none_of_its_kind_left_takes_the_other(busy: int) -> None:
    """Of two workers one is slow: the other runs all that is left, its own kind first, each test once."""
    names = (*_SERVICES, *_UNITS)
    workers = [_Worker(), _Worker()]
    dealer = _begun(names, workers)
    quick = workers[1 - busy]

    done = 0
    while done < len(quick.given):
        dealer.mark_test_complete(quick, quick.given[done])
        done += 1

    own, other = (_UNITS, _SERVICES) if busy == 1 else (_SERVICES, _UNITS)
    assert _turns(names, workers[busy]) == [other[0]]
    assert _turns(names, quick) == [*own, *other[1:]]
    every = sorted(index for worker in workers for index in worker.given)
    assert every == list(range(len(names) * _TESTS_OF_EACH))


def test_what_was_not_run_to_its_end_is_known() -> None:
    """Of a worker that is gone, too, which xdist forgets."""
    worker = _Worker()
    dealer = _begun(_UNITS[:1], [worker])
    tests = _nodeids(_UNITS[0])
    assert dealer.left() == tests

    dealer.mark_test_complete(worker, 1)

    assert dealer.left() == [tests[0], tests[2]]


def test_a_run_without_all_groups_fails(tmp_path: Path) -> None:
    """A file that leaves Python takes its worker with it, and what that was to run: all others passed."""
    files = {f"test_{name}.py": "def test_one(): pass" for name in "bc"}
    for name, text in {**files, "test_a.py": "raise SystemExit(0)"}.items():
        (tmp_path / name).write_text(text)
    argv = [sys.executable, "-m", "pytest", "-q", "--dist", "loadscope", "-n", "2", "-p", "tests.conftest"]
    argv += ["-m", "not long", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])

    assert done.returncode == pytest.ExitCode.INTERNAL_ERROR
    assert "Not run to its end, so the run fails: test_a.py" in done.stdout


def test_a_file_that_names_the_mark_uses_services() -> None:
    """As its tests are marked; a group by any of its files."""
    assert all(map(groups.uses_services, _SERVICES))
    assert not any(map(groups.uses_services, _UNITS))


def test_the_longest_come_first_of_each_kind() -> None:
    """A minute that begins last is waited for alone."""
    services = sorted(("ingest/cli/test_check_parts.py", *_SERVICES), key=groups.turn)
    units = sorted((*_UNITS, "simulation/test_simulation.py"), key=groups.turn)

    assert services[:2] == ["shared_worker", "faults/test_short_campaign.py"]
    assert units[:2] == ["simulation/test_simulation.py", "source_tree"]
