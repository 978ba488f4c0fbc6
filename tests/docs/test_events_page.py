"""docs/events.md has each event that the product logs as WARN or ERROR, with its levels, and no other."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT
from tests.support.source_tree import nodes

PAGE: Final = ROOT / "docs" / "events.md"
LEVELS: Final = {"warning": "WARN", "error": "ERROR", "exception": "ERROR", "critical": "ERROR"}
SOURCES: Final = tuple(
    path
    for room in ("headrace", "ingest", "listeners", "spark")
    for path in sorted((ROOT / room).rglob("*.py"))
)
# Where the name or the level of an event is not written at the call: what is logged there.
ELSEWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    # What another process of ours, or `RetryLog` below, has a name for.
    "headrace/process/logs.py": (),
    "headrace/s3/reader/resumable_get.py": ("WARN version_forbidden",),
    "ingest/service/lifecycle.py": ("WARN paused", "WARN stopped"),
    "ingest/service/sink/sink_statistics.py": ("WARN object_unproven", "ERROR object_quarantined"),
    "ingest/service/statistics.py": ("ERROR object",),
    "ingest/source/catalogue/side_objects.py": (
        "WARN side_object_missing",
        "WARN side_object_late",
        "WARN side_object_alone",
    ),
    "ingest/source/object_selection.py": ("WARN archive_key_unread",),
    "listeners/discovery.py": ("WARN mode", "ERROR mode", "WARN mode_reason", "ERROR mode_reason"),
    "spark/frames/source.py": ("WARN keys_left_out", "WARN object_archived"),
    "spark/jvm.py": ("WARN spark_logged", "ERROR spark_logged"),
    "spark/sink/record_feed.py": ("WARN records_held_back",),
}
_EVENT: Final = re.compile(r"[a-z]+(_[a-z]+)+")


def _is_log(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.lower() in {"log", "_log", "logger", "_logger"}


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _of_call(call: ast.Call) -> Iterator[tuple[str, str | None]]:
    """The level and the event of a call that logs one of these; None where the call does not say it."""
    match call.func:
        case ast.Attribute(value=log, attr=method) if method in LEVELS and _is_log(log):
            yield LEVELS[method], _text(call.args[0])
        case ast.Name(id="RetryLog"):
            is_error = any(one.arg == "is_error" for one in call.keywords)
            yield "ERROR" if is_error else "WARN", _text(call.args[1])
        case ast.Name(id="log_together"):
            yield "", None
        case ast.Name(id="getattr") if _is_log(call.args[0]):
            yield "", None
        case ast.Attribute(attr="log") if call.args and "LEVELS" in ast.unparse(call.args[0]):
            yield "", None


def _of(path: Path) -> Iterator[tuple[str, str | None]]:
    calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
    called = {id(call.func) for call in calls}
    for call in calls:
        yield from _of_call(call)
    for node in nodes(path):
        is_method = isinstance(node, ast.Attribute) and node.attr in LEVELS and _is_log(node.value)
        if is_method and id(node) not in called:
            # Kept, and called elsewhere.
            yield "", None


def logged() -> dict[str, set[str]]:
    """The levels by event, of all that the product logs."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        for level, event in _of(path):
            if event is not None:
                assert _EVENT.fullmatch(event), f"{name}: {event!r} is not noun_verbed"
                found[event].add(level)
    for line in (line for lines in ELSEWHERE.values() for line in lines):
        level, event = line.split()
        found[event].add(level)
    return dict(found)


def documented() -> list[tuple[str, set[str]]]:
    """The events of the page in its order, with their levels."""
    rows = re.findall(
        r"^\| (`[^|]+`) \| ([A-Z, ]+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE
    )
    return [
        (event, set(levels.split(", ")))
        for events, levels, _, _ in rows
        for event in re.findall(r"`(\w+)`", events)
    ]


def test_the_page_has_each_warning_and_error_with_its_level() -> None:
    """An operator who meets one finds what to do."""
    rows = documented()
    events = [event for event, _ in rows]
    assert len(events) == len(set(events))
    assert dict(rows) == logged()


def test_what_is_logged_without_a_name_at_the_call_is_known() -> None:
    """One more such place would not be on the page; one that is gone is not on the list."""
    assert {
        str(path.relative_to(ROOT)) for path in SOURCES if any(event is None for _, event in _of(path))
    } == {*ELSEWHERE}
    texts = {_text(node) for path in SOURCES for node in nodes(path) if isinstance(node, ast.Constant)}
    assert {line.split()[1] for lines in ELSEWHERE.values() for line in lines} <= texts
