"""Which tests one worker of xdist runs in one go, and which groups of them come first."""

import zlib
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

_TESTS: Final = Path(__file__).parents[1]
# Files whose tests share a process, or more: one xdist worker runs them all, so that there is one of each.
SHARING: Final = {
    "shared_worker": ("restore/test_archive_end_to_end.py", "restore/test_round_trips_end_to_end.py",
                      "restore/test_vendor_sources_end_to_end.py", "restore/test_public_files_end_to_end.py",
                      "ingest/connect/test_strange_leader.py", "ingest/connect/test_worker_logs.py",
                      "integration/test_initial_inventory.py", "integration/test_end_to_end.py",
                      "integration/test_gathered_pause.py",
                      "sink/test_aiven_end_to_end.py", "restore/test_archive_discovery.py",
                      "sink/test_sink_end_to_end.py",
                      # Last: their two connectors are there from the first of these tests to the end.
                      "errors/test_error_bad_records.py", "errors/test_error_broker.py",
                      "errors/test_error_gathered.py", "errors/test_error_reading.py",
                      "errors/test_error_topics.py"),
    "spark_session": ("spark/test_foreach_batch.py", "spark/test_foreign_writers.py", "spark/test_variant.py",
                      "spark/frames/test_frames_stream.py", "spark/frames/test_frames_write_queries.py",
                      "spark/test_slot_pool_life.py",
                      "spark/test_task_dead_letters.py", "spark/test_task_end_to_end.py",
                      "spark/test_task_formats.py", "spark/test_task_silent_broker.py",
                      "spark/test_task_stuck.py",
                      # Last: the session's JVM serves others from then on.
                      "spark/test_connect.py"),
    # Numbers before what is asked of it changes them.
    "numbered_service": ("ingest/http/page/test_service_numbers.py",
                         "ingest/http/rest/test_rest_end_to_end.py"),
    # One process plays them all.
    "courses": ("simulation/test_discovery_courses.py", "simulation/test_forbidden_topics.py",
                "simulation/test_inventory_restarts.py", "simulation/test_lost_ledger.py",
                "simulation/test_refused_takeovers.py", "simulation/test_until_archived.py"),
    # They look at the syntax of every module, which is parsed once.
    "source_tree": ("test_import_graph.py", "test_rooms.py", "deploy/test_dependencies.py",
                    "deploy/test_third_party.py", "docs/test_events_page.py", "docs/test_figures.py",
                    "docs/test_maintaining_page.py",
                    "docs/test_plain_english.py", "headrace/process/test_threads.py",
                    "ingest/http/test_status_document.py"),
}  # fmt: skip
_GROUP_OF: Final = {file: fixture for fixture, files in SHARING.items() for file in files}
# What starts services and kills them takes a minute a file: begun last, it would be waited for alone.
_LONGEST_FIRST: Final = (
    *SHARING, "faults/", "sink/", "ingest/connect/", "integration/", "security/", "errors/", "ingest/http/",
)  # fmt: skip
_LONG_UNITS: Final = ("simulation/test_simulation.py", "sink/test_alone_law.py", "source_tree")


def group_of(nodeid: str) -> str:
    """What one xdist worker runs in one go: the tests of a shared process, or of a file."""
    file = nodeid.partition("::")[0].removeprefix(f"{_TESTS.name}/")
    return _GROUP_OF.get(file, file)


def place_within(nodeid: str) -> int:
    """Where the file of a test is in its group: they run in the order in which `SHARING` names them."""
    file = nodeid.partition("::")[0].removeprefix(f"{_TESTS.name}/")
    return SHARING[_GROUP_OF[file]].index(file) if file in _GROUP_OF else 0


@cache
def uses_services(group: str) -> bool:
    """Whether tests of a group are marked so: what deals them out collects none, so their text says it."""
    files = [_TESTS / file for file in SHARING.get(group, (group,))]
    return any(file.is_file() and "mark.parts" in file.read_text() for file in files)


def turn(group: str) -> tuple[int, int, str]:
    """Which group of a kind is run before another: those that are named, in their order, the others mixed.

    Neighbours in a folder are alike: at times all workers would wait for a broker, or all compute.
    """
    first = _LONGEST_FIRST if uses_services(group) else _LONG_UNITS
    rank = next((number for number, one in enumerate(first) if group.startswith(one)), len(first))
    return rank, zlib.crc32(group.encode()), group


def scheduler(config: Any, log: Any) -> Any:
    """What deals groups out to the workers; with pytest 9.2 xdist's own `loadgroup` does nothing."""
    from xdist.scheduler import LoadScopeScheduling  # only where there are workers to schedule

    class Groups(LoadScopeScheduling):  # type: ignore[misc]  # of a library without types
        """The first worker takes units while there are any, the others services.

        So one computes all along: at times all five waited for services, for a quarter of a minute. And
        units are left for the end, of which the last are short.
        """

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            computes = node is self.nodes[0]
            fitting = (group for group in self.workqueue if uses_services(group) is not computes)
            group = next(fitting, next(iter(self.workqueue)))
            tests = self.workqueue.pop(group)
            # Without those that are done: with each test xdist counts what is left in all that are kept.
            begun = self.assigned_work.get(node, {})
            self.assigned_work[node] = {one: of for one, of in begun.items() if not all(of.values())}
            self.assigned_work[node][group] = tests
            # Not each looked for in the list of all, as xdist does: a second of CPU.
            node.send_runtest_some([self._places[test] for test, is_done in tests.items() if not is_done])

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            super().mark_test_complete(node, item_index, duration)
            self._over.add(self.collection[item_index])
            if getattr(node, "workerinput", {}).get("by_group"):
                # Nobody knows how many tests there are: of all as many are over as of the groups.
                plugins = self.config.pluginmanager
                reported = plugins.get_plugin("terminalreporter").reported_progress
                tests = reported * len(self.collection) // len(self._over)
                plugins.get_plugin("session").testscollected = tests

        def left(self) -> list[str]:
            """What was collected and is not over."""
            return [one for one in self.collection or () if one not in self._over]

        @cached_property
        def _over(self) -> set[str]:
            return set()

        @cached_property
        def _places(self) -> dict[str, int]:
            return {test: number for number, test in enumerate(self.collection)}

    return Groups(config, log)
