"""The figures of docs/architecture.md: `python -m tests.docs.figures` prints them, `--write` renews them."""

import argparse
import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.docs.pages import ROOT
from tests.simulation.scenario import Given, Scenario, Step
from tests.simulation.sink_generator import FIXED as SINK
from tests.simulation.sink_run import run_sink
from tests.simulation.source_generator import FIXED as SOURCE
from tests.simulation.source_generator import TOPIC
from tests.simulation.source_run import run_source
from tests.support.source_tree import nodes
from tests.test_import_graph import LEVELS

PAGE: Final = ROOT / "docs" / "architecture.md"
_BEGIN: Final = "| figure | |\n| --- | ---: |\n"
_ROOMS: Final = ("headrace", "ingest", "listeners", "spark")
_FRONT_DOORS: Final = "__init__.py"


def modules() -> dict[Path, list[str]]:
    """The lines of each module of the product."""
    return {
        path: path.read_text().splitlines() for room in _ROOMS for path in sorted((ROOT / room).rglob("*.py"))
    }


def _import_lines(path: Path) -> int:
    """How many lines of a module are imports."""
    return sum(
        node.end_lineno - node.lineno + 1
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom) and node.end_lineno is not None
    )


def _tree() -> Iterator[tuple[str, int]]:
    found = modules()
    subjects = [path for path in found if path.name != _FRONT_DOORS]
    lines = sum(map(len, found.values()))
    imports = sum(map(_import_lines, found))
    names = Counter(path.name for path in subjects)
    yield "lines of the product", lines
    yield "modules, front doors left out", len(subjects)
    yield "lines of a module, median", round(statistics.median(len(found[path]) for path in subjects))
    yield "modules under 100 lines", sum(len(found[path]) < 100 for path in subjects)
    yield "imports, lines in a thousand", round(1000 * imports / lines)
    yield "levels", len(LEVELS)
    yield "names that modules share", sum(count > 1 for count in names.values())


class _Walk:
    """Which modules run between two events of the simulated services."""

    def __init__(self, begins: Callable[[Any, Any], bool], ends: Callable[[Any], bool]) -> None:
        self._begins = begins
        self._ends = ends
        self._is_under_way = False
        self._is_over = False
        self._places = {str(path): path for path in modules()}
        self.found: set[Path] = set()

    def profile(self, frame: Any, event: str, given: Any) -> None:
        """See `sys.setprofile`."""
        code = frame.f_code
        if self._is_over:
            return
        if self._is_under_way:
            if event == "call" and self._ends(code):
                self._is_over = True
            elif code.co_name != "<module>" and (path := self._places.get(code.co_filename)) is not None:
                self.found.add(path)
        elif event == "return" and self._begins(code, given):
            self._is_under_way = True

    def of(self, run: Callable[[], object]) -> int:
        """How many modules."""
        sys.setprofile(self.profile)
        try:
            run()
        finally:
            sys.setprofile(None)
        assert self._is_over, "the walk has not come to its end"
        return len(self.found)


def _is(code: Any, file: str, name: str) -> bool:
    return bool(code.co_name == name and code.co_filename.endswith(f"tests/simulation/{file}"))


def _source(options: Mapping[str, str], given: Given) -> Scenario:
    return Scenario(
        seed=1,
        direction="source",
        options={**SOURCE, **options},
        topics={TOPIC: 1},
        records=(given,),
        steps=(Step(0.0, "start"), Step(30.0, "put", {"begin": 0, "end": 1, "late": 0.0})),
    )


def source_walk() -> int:
    """Modules that run from an SQS message to its deletion, the object read and committed in between."""
    row = Given("in/a.jsonl", 0, None, b'{"n": "0-0", "x": "y"}\n', 0)
    scenario = _source({"sqs.queue.url": "https://sqs.us-east-1.amazonaws.com/1/q"}, row)
    walk = _Walk(
        lambda code, given: _is(code, "sqs.py", "receive") and bool(given),
        lambda code: _is(code, "sqs.py", "delete_message_batch"),
    )
    return walk.of(lambda: run_source(scenario))


def sink_walk() -> int:
    """Modules that run from a fetched record to the completion of its object."""
    scenario = Scenario(
        seed=1,
        direction="sink",
        options={**SINK, "topics": "events0", "output.format": "jsonl", "rotate.records": "1"},
        topics={"events0": 1},
        records=(Given("events0", 0, b"k", b'{"a":1}', 1_700_000_000_000),),
        steps=(Step(0.0, "start"), Step(30.0, "produce", {"begin": 0, "end": 1, "how": "plain"})),
    )

    def is_fetched(code: Any, given: Any) -> bool:
        is_fetch = _is(code, "kafka_consumer.py", "_fetched") and bool(given)
        return is_fetch and any(message.topic() == "events0" for message in given)

    walk = _Walk(is_fetched, lambda code: _is(code, "s3.py", "complete_multipart_upload"))
    return walk.of(lambda: run_sink(scenario))


def figures() -> dict[str, int]:
    """All figures by their names on the page."""
    return {
        **dict(_tree()),
        "modules that run from an SQS message to its deletion": source_walk(),
        "modules that run from a fetched record to its object": sink_walk(),
    }


def on_page(text: str) -> dict[str, int]:
    """What the page has now."""
    rows = text.partition(_BEGIN)[2].partition("\n\n")[0]
    return {
        name: int(number.replace(",", ""))
        for name, number in re.findall(r"^\| (.+?) \| ([\d,]+) \|$", rows, re.MULTILINE)
    }


def with_figures(text: str, found: Mapping[str, int]) -> str:
    """The page with these figures in its table."""
    before, begin, rest = text.partition(_BEGIN)
    assert begin, "the page has lost its table of figures"
    rows = "".join(f"| {name} | {number:,} |\n" for name, number in found.items())
    return f"{before}{begin}{rows.rstrip()}\n\n{rest.partition(chr(10) * 2)[2]}"


def main() -> None:
    """Print them, or write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.figures", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    found = figures()
    if parser.parse_args().write:
        PAGE.write_text(with_figures(PAGE.read_text(), found))
    for name, number in found.items():
        sys.stdout.write(f"{number:>8,}  {name}\n")


if __name__ == "__main__":
    main()
