"""What each room may import, which rooms there are, and what no file of the tree may say."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).resolve().parent.parent

# These decide and never reach out: given values they return values, whatever is installed.
_PURE: Final = frozenset(
    {
        "athena",
        "aws_errors",
        "catalogue",
        "checks",
        "clock",
        "columns",
        "content",
        "errors",
        "exits",
        "options_hash",
        "http",
        "kcql",
        "sanitize",
        "text_formatting",
        "threads",
        "log_levels",
        "logs",
        "marked_error",
        "metrics",
        "notification",
        "model",
        "error_policy",
        "page",
        "planner",
        "process_metrics",
        "rest",
        "key_routes",
        "settings",
        "template",
    }
)
# These talk to S3, to Kafka or to Spark, or put together those that do.
_OUTWARD: Final = frozenset(
    {
        "__main__",
        "aws_credentials",
        "cli",
        "commands",
        "kafka",
        "object_selection",
        "probes",
        "service",
        "service_models",
        "setup",
        "traces",
        "worker",
    }
)

_CLIENTS: Final = ("boto3", "botocore", "aiobotocore", "pyspark", "confluent_kafka")

# Imports a module and all that is below it, then prints the clients that came along.
_PROBE: Final = """
import importlib, pkgutil, sys
room = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(getattr(room, "__path__", []), room.__name__ + "."):
    importlib.import_module(module.name)
print(*(name for name in sys.argv[2:] if name in sys.modules))
"""


def _clients_of(module: str) -> list[str]:
    """The client libraries a fresh interpreter has loaded after importing this module and those below."""
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE, module, *_CLIENTS],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert probe.returncode == 0, probe.stderr
    return probe.stdout.split()


@pytest.mark.parametrize("room", sorted(_PURE))
def test_a_pure_room_needs_no_client(room: str) -> None:
    """Whoever imports the settings or the catalogue gets no S3, Kafka or Spark library with it."""
    assert _clients_of(f"ingest.{room}") == []


def test_layouts_need_no_client() -> None:
    """Names and rows of archives are values: what reads them can be run and tested without any service."""
    assert _clients_of("layouts") == []


@pytest.mark.parametrize("module", ["archive", "spark.sink.partition_offsets"])
def test_the_sinks_decisions_need_no_client(module: str) -> None:
    """The protocol's model drives them by the ten thousand; no service is asked."""
    assert _clients_of(module) == []


def test_the_front_door_needs_no_client() -> None:
    """A program that imports Headrace pays for its clients when it runs something."""
    assert _clients_of("headrace") == []


def test_the_probe_sees_clients() -> None:
    """The test above can fail: a room that does reach out is found out."""
    assert "confluent_kafka" in _clients_of("ingest.kafka")


def test_every_room_is_known() -> None:
    """A new room is put in one of the lists above, so that none escapes the test of purity."""
    entries = (_ROOT / "ingest").iterdir()
    rooms = {entry.stem for entry in entries if entry.suffix == ".py" or (entry / "__init__.py").exists()}

    assert rooms - {"__init__"} == _PURE | _OUTWARD


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
