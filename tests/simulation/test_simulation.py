"""The simulation in `make test`: fresh seeds for a while, and every scenario that ever failed."""

import gc
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from headrace.options.declarations import OPTIONS
from headrace.options.declarations.option import Group
from spark.frames.writing import WRITTEN
from tests.simulation import restore_generator, source_generator
from tests.simulation.__main__ import main
from tests.simulation.coverage import DIMENSIONS, UNDRAWN, UNWRITTEN
from tests.simulation.frames_mutations import MUTATIONS as FRAMES_MUTATIONS
from tests.simulation.kernel import Kernel
from tests.simulation.mutations import MUTATIONS
from tests.simulation.patches import SimulatedLock, SimulatedRLock, simulated
from tests.simulation.scenario import UnknownScenario, dumps, loads
from tests.simulation.sink_generator import sink_scenario
from tests.simulation.turns_mutations import MUTATIONS as TURNS_MUTATIONS
from tests.simulation.worker_mutations import MUTATIONS as WORKER_MUTATIONS
from tests.simulation.writing_generator import DIMENSIONS as WRITING_DIMENSIONS
from tests.simulation.writing_mutations import MUTATIONS as WRITING_MUTATIONS

_ROOT: Final = Path(__file__).parents[2]
_ALL_MUTATIONS: Final = {
    **MUTATIONS,
    **TURNS_MUTATIONS,
    **WORKER_MUTATIONS,
    **{f"of Spark's source: {name}": one for name, one in FRAMES_MUTATIONS.items()},
    **{f"of Spark's writer: {name}": one for name, one in WRITING_MUTATIONS.items()},
}
# Those by which each mutation is found that the first 48 find (`mutations.py`), and of the first 300 those
# that then bring most pairs together. What draws scenarios decides: after a change others may be better.
_CHOSEN: Final = "0:7,11,15,21,23,26,30:34,37,43,44,108,156,218,278,280,285"
# Of these directions fewer find as much: a scenario takes twice as long, and has fewer mutations.
_FEWER: Final = (
    "--only=archives=1:4,6,15,21,26,43,108",
    "--only=layouts=0:4,21,26,32,33,156",
    "--only=turns=2,3,5,7",
    "--only=restore=0:3,5,11,21,23,33,37,39,43,116,151",
)
# Of each direction one that is to be the same run each time.
_SAME: Final = {direction: 69 if direction == "source" else 7 for direction in DIMENSIONS}
_FAILED: Final = sorted((Path(__file__).parent / "failed").glob("*.json"))


def _simulation(*arguments: str, timeout: float = 300) -> "subprocess.CompletedProcess[str]":
    """The simulation in a process of its own: it exchanges clocks, threads and locks."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]  # this project's own
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@cache
def _all_played() -> "subprocess.CompletedProcess[str]":
    """All that is played, in one process, which takes three seconds of CPU to import the service."""
    files = map(str, _FAILED)
    digested = [f"--digested={direction}={seed}" for direction, seed in _SAME.items()]
    return _simulation("--no-shrink", "--seeds", _CHOSEN, *_FEWER, *digested, "--file", *files, timeout=1100)


@pytest.mark.timeout(1200)
def test_what_failed_once_holds_and_chosen_seeds_break_no_law() -> None:
    """The output names the file or the seed of one that fails, and has its scenario.

    Scenarios that broke a law are as small as they were made; `make simulate` draws fresh seeds.
    """
    done = _all_played()

    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout


@pytest.mark.timeout(1200)
def test_a_seed_is_the_same_run_each_time() -> None:
    """What failed can be run again: turns, times and names are those of before, whatever ran before it.

    Of a sink's seed 7 and of a source's 69 the turns were others in each process.
    """
    only = [f"--only={direction}={seed}" for direction, seed in _SAME.items()]
    # Once after that of a source alone, and once after all that is played, that of a source among the last.
    alone = _simulation("--seeds", "69,7", *only, "--digest", "--no-shrink")
    runs = (alone.stdout.splitlines(), _all_played().stdout.splitlines())
    first, second = (sorted(line for line in run if line.startswith("seed ")) for run in runs)

    assert len(first) == len(DIMENSIONS)
    assert first == second


def test_a_real_process_takes_no_virtual_time() -> None:
    """Protobuf's compiler is one: how long it takes depends on what else the machine does."""
    now = Kernel(1)
    # Its pipes end before it does, so that there is an end to wait for.
    slow = "import os; os.close(1); os.close(2); sum(range(3_000_000))"

    def body() -> None:
        subprocess.run([sys.executable, "-c", slow], capture_output=True, timeout=120, check=True)

    with simulated(now):
        now.spawn(now.process("one"), body, "main")
        before = now.turns, now.now
        now.run(until=float("inf"))

        assert not now.failures
        assert (now.turns - before[0], now.now) == (2, before[1])


@pytest.mark.parametrize("name", _ALL_MUTATIONS)
def test_each_protection_is_where_it_is_taken_out(name: str) -> None:
    """What a mutation replaces is in the code, once: else it measures nothing."""
    for file, line, _ in _ALL_MUTATIONS[name].lines:
        assert (_ROOT / file).read_text().count(line) == 1


def test_a_scenario_is_read_as_it_was_written() -> None:
    """Text and bytes, nulls and headers."""
    scenario = sink_scenario(11)

    assert loads(dumps(scenario)) == scenario


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"version": 99}', "The scenario is of version 99"),
        ("no scenario", "This is not a scenario"),
        ("[]", "This is not a scenario"),
        ('{"version": 1, "seed": 1, "direction": "up"}', "'up' is no direction"),
        ('{"version": 1}', "The scenario cannot be read"),
    ],
)
def test_another_version_is_a_sentence(text: str, sentence: str) -> None:
    """A file that this simulation cannot run says so."""
    with pytest.raises(UnknownScenario, match=sentence):
        loads(text)


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--seeds", "first", "'first' names no seeds: give a whole number, or BEGIN:END.\n"),
        ("--seeds", "3,", "'' names no seeds: give a whole number, or BEGIN:END.\n"),
        ("--seeds", "9:3", "'9:3' names no seeds: END is the first that is not run.\n"),
        ("--show", "x", "'x' names no seeds: give a whole number, or BEGIN:END.\n"),
        ("--file", "none", "none cannot be read (No such file or directory): give a scenario's file.\n"),
        (
            "--file",
            sys.executable,
            "This is not a scenario of the simulation: write one with `--show SEED`.\n",
        ),
        (
            "--only",
            "up=1",
            f"'up' is no direction: give {', '.join(sorted(DIMENSIONS))}.\n",
        ),
        ("--minutes", "0", "--minutes 0 is no time: give a number above 0.\n"),
    ],
)
def test_a_call_that_means_nothing_is_a_sentence(
    option: str, value: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a stack."""
    assert main([option, value]) == 2

    assert capsys.readouterr().err == sentence


def test_a_lock_of_a_run_can_be_taken_when_the_process_ends() -> None:
    """Logging takes those of its handlers, held or not by what has ended with the run."""
    lock = SimulatedRLock()

    with lock, lock:
        assert lock.acquire()
    held = SimulatedLock()
    assert held.acquire()
    assert held.acquire()


def test_a_lock_of_a_run_is_given_back_by_all_who_hold_it_after_the_run() -> None:
    """A logger keeps the lock of its stream, which later tests' threads then take."""
    lock = SimulatedLock()
    with lock:
        assert lock.acquire()
        lock.release()
    assert not lock.locked()


def test_each_option_of_a_writer_is_drawn_or_has_a_reason() -> None:
    """As of a source."""
    drawn = {*WRITING_DIMENSIONS, "output.layout"}
    wanted = {option.name for option in WRITTEN} - drawn
    beginnings = tuple(name for names in UNWRITTEN for name in names.split())

    assert {name for name in wanted if not name.startswith(beginnings)} == set()
    assert [one for one in beginnings if not any(name.startswith(one) for name in wanted)] == []


def test_each_option_of_a_source_is_drawn_or_has_a_reason() -> None:
    """An option that is new is drawn, or `UNDRAWN` says why not."""
    sinks = {Group.SINK, Group.OUTPUT, Group.ROTATION, Group.UPLOADS}
    drawn = {*source_generator.DIMENSIONS, *source_generator.FIXED, *restore_generator.DIMENSIONS}
    drawn |= {*restore_generator.FIXED, "text.pattern"}
    wanted = {option.name for option in OPTIONS if option.group not in sinks} - drawn
    beginnings = tuple(name for names in UNDRAWN for name in names.split())

    assert {name for name in wanted if not name.startswith(beginnings)} == set()
    assert [one for one in beginnings if not any(name.startswith(one) for name in wanted)] == []


def test_the_product_freezes_nothing_in_a_run() -> None:
    """Its thaw would thaw what was imported, through which each collection between runs would go."""
    frozen = gc.get_freeze_count()
    with simulated(Kernel(1)):
        gc.freeze()
        found = gc.get_freeze_count()

    assert found == frozen
