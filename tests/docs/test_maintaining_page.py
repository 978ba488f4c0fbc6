"""docs/maintaining.md: its threads are those that the code starts, and its debugger stops in a slot.

And what it says of CI and of the scripts beside the product.
"""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.docs.pages import PAGES, ROOT, blocks
from tests.support.source_tree import nodes

PAGE: Final = ROOT / "docs" / "maintaining.md"
# What starts a thread, and which of its arguments names it.
_STARTERS: Final = {
    "start_thread": "name",
    "Thread": "name",
    "Timer": None,
    "ThreadPoolExecutor": "thread_name_prefix",
    "of_each": "name",
    "ahead_of_each": "name",
    "to_thread": None,
    "run_in_executor": None,
    "ThreadPool": None,
}
_UNNAMED: Final = {"Timer": "(timer)", "to_thread": "(to_thread)"}
# `start_thread` is one of them.
_MAKES_THEM: Final = "def start_thread("
_ROW: Final = re.compile(r"^\| `([^`]+)` \| `([\w/]+\.py)` \|", re.MULTILINE)
DEBUGGED: Final = [line for block in blocks(PAGE) for line in block.lines if " -m pdb " in line]


def _name(node: ast.expr | None) -> str:
    match node:
        case ast.Constant(str(name)):
            return name
        case ast.JoinedStr(values):
            return "".join(_name(value) for value in values)
    return "*"


def _threads(found: Iterable[ast.AST]) -> Iterator[str]:
    """The names of the threads and pools that a module starts; what is not known before is a `*`."""
    for node in found:
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if bases & {"ThreadingHTTPServer", "ThreadingMixIn", "ThreadingTCPServer"}:
                yield "(connection)"
        if not isinstance(node, ast.Call):
            continue
        starter = ast.unparse(node.func).rpartition(".")[2]
        if starter in _UNNAMED:
            yield _UNNAMED[starter]
        elif starter in _STARTERS:
            yield _name(next((one.value for one in node.keywords if one.arg == _STARTERS[starter]), None))


def _started() -> set[tuple[str, str]]:
    found = set()
    for room in ("headrace", "ingest", "listeners", "spark"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if _MAKES_THEM not in path.read_text():
                found |= {(name, str(path.relative_to(ROOT))) for name in _threads(nodes(path))}
    return found


def test_the_table_has_each_thread_and_no_other() -> None:
    """A thread without an owner is a question for whoever reads a stack."""
    assert set(_ROW.findall(PAGE.read_text())) == _started()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("start_thread(self._run, name='keeper')", "keeper"),
        ("start_thread(self._run, name=f'part-{number}')", "part-*"),
        ("threading.Thread(target=run).start()", "*"),
        ("threading.Timer(1.0, run)", "(timer)"),
        ("await asyncio.to_thread(run)", "(to_thread)"),
        ("ThreadPoolExecutor(2, thread_name_prefix='fence')", "fence"),
        ("of_each(call, ids, at_once=2, name='fence')", "fence"),
        ("class Server(socketserver.ThreadingMixIn, TCPServer): ...", "(connection)"),
    ],
)
def test_a_new_thread_is_found(text: str, name: str) -> None:
    """However it is started."""
    assert list(_threads(ast.walk(ast.parse(text)))) == [name]


@pytest.mark.parametrize("line", DEBUGGED, ids=["source", "sink"])
def test_a_breakpoint_of_the_page_is_a_function(line: str) -> None:
    """And the scenario is there."""
    words = shlex.split(line)
    module = next(word for word in words if word.startswith("import ")).removeprefix("import ")
    where = next(word for word in words if word.startswith("b ")).removeprefix("b ")
    owner, function = where.removeprefix(f"{module}.").split(".")
    assert callable(getattr(getattr(importlib.import_module(module), owner), function))
    assert Path(ROOT, words[-1]).exists()


@pytest.mark.long
@pytest.mark.parametrize("line", DEBUGGED, ids=["source", "sink"])
def test_the_debugger_stops_in_a_slot(line: str) -> None:
    """As the page has it: `w` shows the slot's loop, and the next line can be stepped to."""
    hash_seed, _, *words = shlex.split(line)
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **dict([hash_seed.split("=")])},  # noqa: TID251  # of a process that a person starts
        input="w\nn\ncl 1\nc\nq\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "run_slot()" in ended.stdout, ended.stdout + ended.stderr
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_forge_runs_what_ci_runs() -> None:
    """The workflow has no steps of its own, and the page names those of `.ci/run`."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert steps == ["bash .ci/run"]
    made = re.findall(r"^make [a-z]+$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert made
    text = PAGE.read_text()
    assert [target for target in made if f"`{target}`" not in text] == []


def test_each_script_of_bench_measures_what_a_page_says() -> None:
    """Or another script, or a test, is made of it: what answered one question once does not stay."""
    texts = [(ROOT / "Makefile").read_text(), *(page.read_text() for page in PAGES)]
    modules = [
        path.read_text() for room in ("bench", "tests") for path in sorted((ROOT / room).rglob("*.py"))
    ]
    for script in sorted((ROOT / "bench").glob("*.py")):
        name = script.stem
        is_named = any(re.search(rf"bench[./]{name}\b", text) for text in texts)
        is_used = any(
            re.search(rf"from bench\.{name} import|from bench import .*\b{name}\b|\"{name}\"", text)
            for text in modules
        )
        assert is_named or is_used, script
