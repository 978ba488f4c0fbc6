"""Groups are dealt out in place of tests, and each test of theirs runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import by_group, groups
from tests.support.by_group import Group

_WHOLE: dict[str, Any] = {"dist": "loadscope", "keyword": "", "deselect": None, "markexpr": "not long"}


@pytest.mark.parametrize(
    ("changed", "args", "is_possible"),
    [
        ({}, ["tests"], True),
        ({}, ["tests/spark", "tests/test_rooms.py"], True),
        ({"markexpr": "long or not long"}, ["tests"], True),
        ({"markexpr": "parts"}, ["tests"], False),
        ({"keyword": "template"}, ["tests"], False),
        ({"deselect": ["tests/spark"]}, ["tests"], False),
        ({}, ["tests/test_rooms.py::test_x"], False),
        ({"dist": "no"}, ["tests"], False),
    ],
)
def test_only_where_no_test_is_picked(changed: dict[str, Any], args: list[str], is_possible: bool) -> None:
    """A run that picks none says so, for which all have to be known."""
    options = {**_WHOLE, **changed}
    config: Any = SimpleNamespace(getoption=lambda name, default=None: options.get(name, default), args=args)

    assert by_group.is_possible(config) == is_possible


def _group(session: pytest.Session, nodeid: str, *files: Any) -> Group:
    group: Group = Group.from_parent(session, name=nodeid, nodeid=nodeid, files=list(files))
    return group


def test_what_shares_a_process_is_one_of_them(request: pytest.FixtureRequest) -> None:
    """Each file once, in the order of the groups."""
    alone = ["tests/headrace/formats/test_csv.py", "tests/listeners/test_head.py", "tests/test_by_group.py"]
    sharing = [f"tests/{file}" for file in groups.SHARING["spark_session"]]
    found = by_group.joined([_group(request.session, nodeid, nodeid) for nodeid in (*alone, *sharing)])

    names = [groups.group_of(one.nodeid) for one in found]
    assert names == sorted({*names}, key=groups.turn)
    # A worker that crashed is said to have run this.
    assert {one.nodeid for one in found} == {*alone, "spark_session"}
    files: list[Any] = [one.files for one in found]
    assert dict(zip(names, files, strict=True)) == {
        "spark_session": sharing,
        **{groups.group_of(nodeid): [nodeid] for nodeid in alone},
    }


def test_its_tests_are_all_that_are_not_long(request: pytest.FixtureRequest) -> None:
    """Of this file as they were collected before: by name, with their cases, in their order."""
    module = request.node.getparent(pytest.Module)
    assert module is not None
    here = [name for name in globals() if name.startswith("test_")]

    found = by_group.tests_of(_group(request.session, module.nodeid, module))

    assert list(dict.fromkeys(one.nodeid.rpartition("::")[2].partition("[")[0] for one in found)) == here
    assert len(found) == len(here) - 1 + 8
    assert {one.nodeid.partition("::")[0] for one in found} == {module.nodeid}


def test_each_runs_in_the_place_of_its_group(request: pytest.FixtureRequest) -> None:
    """Where xdist looks for the test of a report; the last one is told of the group that follows."""
    module = request.node.getparent(pytest.Module)
    assert module is not None
    ran: list[tuple[object, object, object]] = []
    group, following = (_group(request.session, name, module) for name in ("one", "another"))
    session: Any = SimpleNamespace(items=[following, group], shouldfail=False, shouldstop=False)
    hook = SimpleNamespace(
        pytest_collection_modifyitems=lambda **_: None,
        pytest_runtest_protocol=lambda item, nextitem: ran.append((item, nextitem, session.items[1])),
    )
    session.config = SimpleNamespace(hook=hook)
    group.session = session
    group.config = session.config

    by_group.run(group, following)

    items = [item for item, _, _ in ran]
    assert len(items) > 1
    assert [after for _, after, _ in ran] == [*items[1:], following]
    assert [there for _, _, there in ran] == items
    assert session.items == [following, group]
