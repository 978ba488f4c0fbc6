"""Each of xdist's workers collects what it runs: the files of a group when its turn comes.

Five workers that each import all test files take a minute of CPU, before the first test runs, and a gigabyte
each from then on. So what a worker collects at first, and is dealt out, are groups in place of tests.
"""

import gc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import pytest

from tests.support import groups

_WHOLE: Final = ("not long", "long or not long")
"""Expressions of marks by which no file is left out."""


class Group(pytest.Item):
    """What is dealt out: the tests of some files, of which none is imported before."""

    def __init__(self, *, files: list[pytest.File], **values: Any) -> None:
        super().__init__(**values)
        self.files: Final = files

    def runtest(self) -> None:
        """Never: `run` has its tests run in its place."""
        raise AssertionError(self.nodeid)


def is_possible(config: pytest.Config) -> bool:
    """Whether all tests of the files that are given run, so that it need not be known which there are.

    Of a run that picks tests it is said when there are none.
    """
    picks = (
        config.getoption("keyword") or config.getoption("deselect") or any("::" in one for one in config.args)
    )
    return (
        config.getoption("dist", "no") == "loadscope" and not picks and config.getoption("markexpr") in _WHOLE
    )


def files(session: pytest.Session, node: pytest.Item | pytest.Collector) -> Iterator[pytest.Item]:
    """A group for each file in a folder; in place of `Session.genitems`, which imports them."""
    if isinstance(node, pytest.File):
        yield Group.from_parent(session, name=node.name, nodeid=node.nodeid, files=[node])
    elif isinstance(node, pytest.Collector):
        for each in _collected(node):
            yield from files(session, each)


def joined(found: list[Group]) -> list[Group]:
    """One for each group of `tests.support.groups`, in the order in which they run."""
    every: dict[str, list[Group]] = {}
    for one in found:
        every.setdefault(groups.group_of(one.nodeid), []).append(one)
    return [
        Group.from_parent(
            every[name][0].session,
            name=name,
            # By this xdist says what a worker that crashed was running: not the first of many files.
            nodeid=name if name in groups.SHARING else every[name][0].nodeid,
            files=[file for one in every[name] for file in one.files],
        )
        for name in sorted(every, key=groups.turn)
    ]


def run(group: Group, following: pytest.Item | None) -> None:
    """Collect the tests of a group and run them, each in its place among what the session has."""
    session = group.session
    items = tests_of(group)
    place = session.items.index(group)
    try:
        for one, after in pairwise([*items, following]):
            assert one is not None
            # Where xdist looks for the test that a report is of.
            session.items[place] = one
            session.config.hook.pytest_runtest_protocol(item=one, nextitem=after)
            if session.shouldfail or session.shouldstop:
                break
    finally:
        session.items[place] = group


def tests_of(group: Group) -> list[pytest.Item]:
    """Those that are to run of its files, imported now."""
    gc.disable()
    try:
        items = [test for file in group.files for test in _items(file)]
        hook = group.config.hook
        hook.pytest_collection_modifyitems(session=group.session, config=group.config, items=items)
    finally:
        gc.enable()
    return items


def _items(node: pytest.Item | pytest.Collector) -> Iterator[pytest.Item]:
    if isinstance(node, pytest.Item):
        node.ihook.pytest_itemcollected(item=node)
        yield node
    elif isinstance(node, pytest.Collector):
        for each in _collected(node):
            yield from _items(each)


def _collected(node: pytest.Collector) -> list[pytest.Item | pytest.Collector]:
    """What is in it; none where it cannot be collected, which fails the run."""
    node.ihook.pytest_collectstart(collector=node)
    report: pytest.CollectReport = node.ihook.pytest_make_collect_report(collector=node)
    # As pytest's own collection: it is not for the process that is told of the report.
    vars(report).pop("call", None)
    node.ihook.pytest_collectreport(report=report)
    return list(report.result or []) if report.passed else []
