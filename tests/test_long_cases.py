"""What `make test` leaves out is there, and so is what shows the same in its place."""

import gzip
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.long_cases import MOVED, Moved, case_name, is_long, stale

_TESTS = Path(__file__).parent


def _source(test: str) -> str:
    """The text of the file that a test is in."""
    return (_TESTS / test.partition("::")[0]).read_text()


def _is_defined(test: str) -> bool:
    """Whether the file defines the test; a whole file is itself."""
    name = test.rpartition("::")[2] if "::" in test else ""
    return not name or re.search(rf"def {name}\(", _source(test)) is not None


@pytest.mark.parametrize("moved", MOVED, ids=lambda moved: moved.test)
def test_what_shows_the_subject_is_there_and_not_long(moved: Moved) -> None:
    """A renamed test is renamed in the table, and what `make test` does not run shows nothing there."""
    assert _is_defined(moved.test)
    for shown in moved.shown_by:
        assert _is_defined(shown), shown
        assert shown != moved.test
        wholly = [other.test for other in MOVED if not other.cases and not other.kept]
        assert shown not in wholly
        assert not re.search(
            rf"@pytest\.mark\.long\n(?:@.*\n)*def {shown.rpartition('::')[2]}\(", _source(shown)
        )


def test_packed_bytes_are_named_alike_at_each_collection() -> None:
    """The second is in gzip's header: four workers that collect in two of them found other names."""
    assert {case_name(gzip.compress(b"", mtime=second), "content") for second in range(300)} == {"content"}
    for named_by_itself in (b"plain text of some length", b"\xff", "a", 1):
        assert case_name(named_by_itself, "content") is None


def test_each_test_is_in_the_table_once() -> None:
    """Two entries would say different things."""
    assert len({moved.test for moved in MOVED}) == len(MOVED)


def test_a_table_that_does_not_fit_is_noticed() -> None:
    """A case that is gone, and a test of which nothing remains and nothing is named in its place."""
    first = next(moved for moved in MOVED if moved.kept)
    whole = next(moved for moved in MOVED if not moved.cases and not moved.kept)

    assert stale([(first.test, case) for case in (*first.kept, "another")]) == []
    assert f"{first.test} has no case {first.kept[1]}" in stale([(first.test, first.kept[0])])
    assert any("needs either" in line for line in stale([(first.test, "another")]))
    assert not any(whole.test in line for line in stale([(whole.test, "")]))
    assert is_long(whole.test, "")
    assert not is_long(first.test, first.kept[0])
    assert is_long(first.test, "another")


class _Item:
    """What pytest collected, as far as it is marked."""

    def __init__(self, test: str) -> None:
        self.nodeid = f"tests/{test}"
        self.stash = pytest.Stash()
        self.marks: list[str] = []

    def add_marker(self, mark: str) -> None:
        self.marks.append(mark)

    def get_closest_marker(self, mark: str) -> str | None:
        return mark if mark in self.marks else None


def test_it_is_noticed_where_the_first_test_is_long(request: pytest.FixtureRequest) -> None:
    """`make test` leaves that one out, and what it would say with it."""
    conftest: Any = request.config.pluginmanager.get_plugin(str(_TESTS / "conftest.py"))
    moved = next(moved for moved in MOVED if moved.kept)
    long, short = _Item(f"{moved.test}[another]"), _Item(f"{moved.test.partition('::')[0]}::test_short")

    conftest.pytest_collection_modifyitems(SimpleNamespace(args=["tests"]), [long, short])

    assert (long.marks, short.marks) == (["long"], [])
    assert f"{moved.test} has no case" in short.stash[conftest._PROBLEM]


def test_a_run_that_picks_nothing_says_so() -> None:
    """Exit code 5 alone tells nobody that a word in PYTEST_ARGS is misspelt, or that the test is long."""
    argv = [sys.executable, "-m", "pytest", "-q", "-k", "no_such_test", str(Path(__file__)), "-n", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])

    assert done.returncode == 5
    assert "No test was picked, so nothing was tried (exit code 5): correct PYTEST_ARGS" in done.stdout
