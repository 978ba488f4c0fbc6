"""What each room may import, which rooms there are, and what no file of the tree may say."""

import ast
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from token import COMMENT
from typing import Final

import pytest

from tests.support.source_tree import nodes, parsed

_ROOT: Final = Path(__file__).resolve().parent.parent

# Rooms that decide or convert and never reach out: given values they return values, whatever is installed.
_PURE: Final = (
    "headrace.conversion",
    "headrace.formats",
    "headrace.model",
    "headrace.names",
    "headrace.options",
    "headrace.vendors",
    "ingest.sink",
)
# Modules of other rooms that need no client either: what a program imports, and pays for when it runs
# something; decisions of the source; what judges, shows and logs; what a batch of frames is, and its rows.
_WITHOUT_CLIENT: Final = (
    "headrace.aws.aws_errors",
    "headrace.connector",
    "headrace.frames",
    "headrace.process",
    "headrace.quix",
    "headrace.spark",
    "ingest.checks.athena",
    "ingest.checks.findings",
    "ingest.http.http_server",
    "ingest.http.metrics",
    "ingest.http.requests",
    "ingest.http.page",
    "ingest.http.rest",
    "ingest.http.snapshot",
    "ingest.source.catalogue",
    "ingest.source.command_queue",
    "ingest.source.first_starts",
    "ingest.source.object_selection",
    "ingest.source.notification",
    "ingest.source.planner",
    "spark.frames.admission",
    "spark.frames.column_rows",
    "spark.frames.log_entries",
    "spark.frames.column_types",
    "spark.sink.partition_offsets",
)

# What a pure room has nowhere, not even in a function.
_REACHING_OUT: Final = frozenset(
    {
        "aiobotocore",
        "aiohttp",
        "asyncio",
        "boto3",
        "botocore",
        "concurrent",
        "confluent_kafka",
        "http",
        "pyspark",
    }
    | {"multiprocessing", "socket", "ssl", "subprocess", "threading"}
)
# Converters and record builders are given a schema registry's client, which is made here, once a process.
_REGISTRY: Final = frozenset({"protobuf_schemas", "registry", "registry_connection", "registry_schemas"})

_CLIENTS: Final = ("boto3", "botocore", "aiobotocore", "pyspark", "confluent_kafka")

_PACKAGES: Final = ("headrace", "ingest", "listeners", "spark")


def _run_on_import(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements that run with the module: those in no function and for no type checker."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _run_on_import(node.orelse)
            case _:
                for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
                    yield from _run_on_import(getattr(node, inner, []))


@cache
def _modules() -> dict[str, frozenset[str]]:
    """Each module of ours with the dotted names that it imports when it is imported, ours and others'."""
    found = {}
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")
            names: set[str] = set()
            for node in _run_on_import(parsed(path).body):
                if isinstance(node, ast.Import):
                    names.update(alias.name for alias in node.names)
                else:
                    assert node.level == 0, f"{path} imports relatively"
                    names.update(f"{node.module}.{alias.name}" for alias in node.names)
            found[name] = frozenset(names)
    return found


def _with_parents(name: str) -> Iterator[str]:
    """The name and the packages that it is in: importing `a.b` runs `a` first."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _clients_of(room: str, modules: Mapping[str, frozenset[str]]) -> list[str]:
    """A line for each import of a client that comes along with the room and all that is below it."""
    waiting = [name for name in modules if name == room or name.startswith(f"{room}.")]
    assert waiting, f"there is no {room}"
    loaded: set[str] = set()
    clients = []
    while waiting:
        for name in _with_parents(waiting.pop()):
            if name in modules and name not in loaded:
                loaded.add(name)
                waiting.extend(modules[name])
                clients += [
                    f"{name} imports {imported}"
                    for imported in modules[name]
                    if imported.partition(".")[0] in _CLIENTS
                ]
    return sorted(clients)


@pytest.mark.parametrize("room", [*_PURE, *_WITHOUT_CLIENT])
def test_a_pure_room_needs_no_client(room: str) -> None:
    """Whoever imports the settings or the catalogue gets no S3, Kafka or Spark library with it."""
    assert _clients_of(room, _modules()) == []


@pytest.mark.parametrize("room", _PURE)
def test_a_pure_room_reaches_nowhere(room: str) -> None:
    """No thread, no socket, no client, in no function: what it needs of the world is given to it."""
    found = []
    for path in sorted((_ROOT / room.replace(".", "/")).rglob("*.py")):
        name = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
        for node in nodes(path):
            if isinstance(node, ast.Import):
                imported = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                imported = {node.module.partition(".")[0]}
            else:
                continue
            if path.stem not in _REGISTRY:
                found += [f"{name} imports {one}" for one in imported & _REACHING_OUT]

    assert found == []


def test_the_import_graph_is_what_an_interpreter_does() -> None:
    """Nor do libraries of others, which are not in the graph, bring a client along: all in one process."""
    rooms = (*_PURE, *_WITHOUT_CLIENT)
    names = [
        name for name in _modules() if any(name == room or name.startswith(f"{room}.") for room in rooms)
    ]
    probe = (
        "import importlib, sys\n"
        f"for name in {names}: importlib.import_module(name)\n"
        f"print(*(name for name in {_CLIENTS} if name in sys.modules))"
    )

    said = subprocess.run(
        [sys.executable, "-c", probe], cwd=_ROOT, capture_output=True, text=True, check=False
    )

    assert (said.returncode, said.stdout.split()) == (0, []), said.stderr


def test_the_graph_sees_clients() -> None:
    """The tests above can fail: directly, through a module between, and through a package around it."""
    modules = {
        "a": frozenset({"botocore"}),
        "a.inner": frozenset({"json"}),
        "b": frozenset({"a.inner.value"}),
        "c": frozenset({"json.decoder"}),
    }

    assert _clients_of("b", modules) == ["a imports botocore"]
    assert _clients_of("c", modules) == []
    assert any("confluent_kafka" in line for line in _clients_of("headrace.kafka", _modules()))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    import boto3", []),
        ("if TYPE_CHECKING:\n    import boto3", []),
        ("class A:\n    import boto3", ["boto3"]),
        ("try:\n    import boto3\nexcept ImportError:\n    import botocore", ["boto3", "botocore"]),
        ("with x:\n    if y:\n        pass\n    else:\n        import boto3", ["boto3"]),
    ],
)
def test_what_runs_on_import(text: str, found: list[str]) -> None:
    """What a function imports is paid for when it is called."""
    nodes = _run_on_import(ast.parse(text).body)

    assert [alias.name for node in nodes for alias in node.names] == found


# A line of a package's docstring that names what is in it: names, blanks, and what they are.
_NAMED: Final = re.compile(r" {0,4}((?:[a-z_0-9]+/?, )*[a-z_0-9]+/?)  +\S")
_DOTTED: Final = re.compile(r"(?<![\w./-])(?:headrace|ingest|listeners|spark)(?:\.[a-z_0-9]+)+(?![\w(-])")
# What looks the same: options of Spark, headers and attributes of spans, a service in Kubernetes.
_NO_MODULES: Final = ("spark.", "headrace.source.", "headrace.object.", "headrace.headrace.svc")
_HEADERS: Final = re.compile(
    r"headrace\.(attempts|bucket|bytes|etag|first_offset|found_by|internal|json|key|last_offset|member|outcome"
    r"|position|reason|rows|size|source_offset|transactions|version_id)"
)


def _named(docstring: str) -> Iterator[str]:
    """The names of modules and packages that a package's docstring begins lines with."""
    for line in docstring.splitlines():
        if (found := _NAMED.match(line)) is not None:
            yield from (name.rstrip("/") for name in found[1].split(", "))


@pytest.mark.parametrize(
    "package",
    [
        str(path.parent.relative_to(_ROOT))
        for name in _PACKAGES
        for path in sorted((_ROOT / name).rglob("__init__.py"))
    ],
)
def test_a_front_door_tells_the_truth(package: str) -> None:
    """What a package says is in it is in it, and it says something."""
    folder = _ROOT / package
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""

    assert docstring
    missing = [
        name
        for name in _named(docstring)
        if not (folder / f"{name}.py").exists() and not (folder / name / "__init__.py").exists()
    ]
    assert missing == []


def _prose(path: Path) -> Iterator[str]:
    """A page as it is; of a module docstrings and comments."""
    if path.suffix == ".md":
        yield path.read_text()
        return
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
    with path.open("rb") as file:
        yield from (token.string for token in tokenize.tokenize(file.readline) if token.type == COMMENT)


@cache
def _names_in(module: str) -> frozenset[str]:
    """What a module binds, imports included; of a package also what is in its folder."""
    place = _ROOT / module.replace(".", "/")
    names = {path.stem for path in place.glob("*")}
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    for node in nodes(file) if file.exists() else ():
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
    return frozenset(names)


def _gone(text: str) -> list[str]:
    """The dotted names in a text that begin as ours do, and name neither a module nor what is in one."""
    gone = []
    for name in _DOTTED.findall(text):
        parent, _, last = name.rpartition(".")
        is_other = name.startswith(_NO_MODULES) or _HEADERS.fullmatch(name) is not None
        if not is_other and name not in _modules() and last not in _names_in(parent):
            gone.append(name)
    return gone


def test_modules_that_are_named_exist() -> None:
    """Docstrings, comments and pages name modules by their dotted names, which a move has to carry along."""
    rooms = (*_PACKAGES, "tests", "bench")
    modules = [path for room in rooms for path in sorted((_ROOT / room).rglob("*.py"))]
    pages = [*sorted((_ROOT / "docs").rglob("*.md")), _ROOT / "README.md", _ROOT / "CONTRIBUTING.md"]
    found = [
        f"{path.relative_to(_ROOT)}: {name}"
        for path in (*modules, *pages)
        # Most have none; to find their comments takes ten times as long.
        if _gone(path.read_text())
        for text in _prose(path)
        for name in _gone(text)
    ]

    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see headrace.kafka.fencing", []),
        ("`headrace.model.errors.exit_code`", []),
        ("{} has it".format("headrace.kafka.fence"), ["headrace.kafka.fence"]),
        ("{}.no_such_thing".format("headrace.model.errors"), ["headrace.model.errors.no_such_thing"]),
        ("`headrace.archive`", ["headrace.archive"]),
        ("spark.sql.shuffle.partitions, headrace.bucket", []),
    ],
)
def test_a_module_that_is_named_and_gone_is_found(text: str, found: list[str]) -> None:
    """In a package that is there as well, and a name in a module that is; options and headers are none."""
    assert _gone(text) == found


def test_the_test_of_front_doors_reads_them() -> None:
    """Names of several modules, of folders, and no prose."""
    text = "Title.\n\narchive      what\nkeys, rows/   which\n    deep   one\nA sentence  of two.\nprose here"

    assert list(_named(text)) == ["archive", "keys", "rows", "deep"]


def test_localstack_is_no_package() -> None:
    """A regular package of this name on the path would hide LocalStack's own."""
    assert not (_ROOT / "localstack" / "__init__.py").exists()


# A class of one letter keeps each pattern from finding itself.
_FORBIDDEN: Final = {
    "a path of one machine": re.compile(r"(?<![\w.])/(wor[k]|roo[t])/"),
    "a package registry": re.compile(
        r"files\.pythonhoste[d]|pyp[i]\.org/simple|repo1?\.mave[n]|maven\.apach[e]\.org/maven2"
        r"|registry\.npmj[s]|proxy\.golan[g]",
    ),
}


def _tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := _ROOT / name).is_file()]


@pytest.mark.parametrize("what", sorted(_FORBIDDEN))
def test_no_tracked_file_names(what: str) -> None:
    """The tree works anywhere: it knows packages by name, and no machine."""
    found = [
        f"{path.relative_to(_ROOT)}:{number}: {line.strip()[:120]}"
        for path in _tracked_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if _FORBIDDEN[what].search(line)
    ]

    assert found == []


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a path of one machine", "open('/{}/main/x')".format("work")),
        ("a path of one machine", "/{}/.cache".format("root")),
        ("a package registry", "https://repo1.{}.org/maven2/x".format("maven")),
        ("a package registry", "https://repo.{}.apache.org/maven2/x".format("maven")),
        ("a package registry", "--index-url https://{}.org/simple".format("pypi")),
        ("a package registry", "https://files.{}.org/packages/ab".format("pythonhosted")),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, line: str) -> None:
    """The test above can fail."""
    assert _FORBIDDEN[what].search(line)


# Python before 3.11.5 gives up where a way through such a group ends early (a head of S3, a row of csv).
_POSSESSIVE_GROUP: Final = re.compile(r"(?<![\\(])\)(?:[*+?]|\{[0-9,]+\})\+")


def test_no_group_is_possessive() -> None:
    """An atomic group around a greedy one, `(?>(?:..)*)`, says the same, and is right in each 3.11."""
    found = [
        f"{path.relative_to(_ROOT)}:{node.lineno}"
        for room in ("headrace", "ingest", "listeners", "spark")
        for path in sorted((_ROOT / room).rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        if _POSSESSIVE_GROUP.search(
            node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        )
    ]

    assert found == []
    assert _POSSESSIVE_GROUP.search(r"(?:a|b)*+")
