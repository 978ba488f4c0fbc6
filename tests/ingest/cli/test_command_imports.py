"""What each command loads: a command that reads a file must not wait for clients and for Arrow."""

import json
import resource
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

# Of a process that runs the command: first who brings each module, then all that were loaded, and its CPU.
_PROBE: Final = """
import atexit, json, sys

class Noting:
    def __init__(self):
        self.chains = {}
    def find_spec(self, name, path, target=None):
        if "." not in name:
            chain, frame = [], sys._getframe(1)
            while frame is not None:
                module = frame.f_globals.get("__name__", "")
                if not module.startswith("importlib") and module != "__main__" and module not in chain:
                    chain.append(module)
                frame = frame.f_back
            self.chains.setdefault(name, chain)

noting = Noting()
sys.meta_path.insert(0, noting)
from ingest.__main__ import main

@atexit.register
def tell():
    with open("found.json", "w") as file:
        json.dump({"modules": sorted(sys.modules), "chains": noting.chains}, file)

main()
"""
_CLIENTS: Final = frozenset(
    {"aiobotocore", "aiohttp", "boto3", "botocore", "confluent_kafka", "pyspark", "py4j"}
)
_COLUMNS: Final = frozenset({"fastavro", "numpy", "pandas", "polars", "pyarrow"})
# structlog brings asyncio and rich with it.
_LOGS: Final = frozenset({"asyncio", "prometheus_client", "rich", "sqlite3", "structlog"})
_QUIET: Final = _CLIENTS | _COLUMNS | _LOGS
# Of what nothing before the first answer of a service makes use.
_ASKING: Final = frozenset({"aiobotocore", "aiohttp", "boto3", "pyspark", "py4j"}) | _COLUMNS

_SOURCE: Final = {
    "name": "orders",
    "bootstrap.servers": "127.0.0.1:1",
    "aws.s3.bucket.name": "orders",
    "aws.s3.endpoint": "http://127.0.0.1:1",
    "aws.access.key.id": "test",
    "aws.secret.access.key": "test",
    "sqs.queue.url": "http://127.0.0.1:1/queue/us-east-1/000000000000/orders",
    "file.name.template": "orders/{{topic}}-{{partition}}-{{start_offset}}",
    "input.format": "jsonl",
    "http.listen": "127.0.0.1:1",
}
_SINK: Final = {
    "name": "archive",
    "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "topics": "orders",
    "bootstrap.servers": "127.0.0.1:1",
    "aws.s3.bucket.name": "archive",
    "aws.s3.region": "eu-central-1",
    "aws.access.key.id": "test",
    "aws.secret.access.key": "test",
    "format.output.type": "jsonl",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


@dataclass(frozen=True, slots=True)
class _Command:
    arguments: tuple[str, ...]
    without: frozenset[str] = _QUIET
    modules: int = 480
    codes: tuple[int, ...] = (0,)


_COMMANDS: Final = (
    _Command(("--version",), modules=220),
    _Command(("--help",), modules=220),
    _Command(("lint", "source.json")),
    _Command(("lint", "sink.json")),
    _Command(("options", "rotate.")),
    _Command(("explain", "source.json", "orders/orders-0-12")),
    _Command(("translate", "sink.json")),
    _Command(("policy", "source.json")),
    _Command(("policy", "sink.json")),
    _Command(("check", "source.json"), without=_ASKING, modules=950, codes=(3,)),
    _Command(("plan", "source.json", "--startup-timeout", "1"), without=_ASKING, modules=950, codes=(3,)),
    _Command(("status", "source.json", "--startup-timeout", "1"), without=_ASKING, modules=950, codes=(3,)),
    _Command(("setup", "source.json"), without=_ASKING, modules=950, codes=(3,)),
)


def _run(folder: Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    for name, options in (("source", _SOURCE), ("sink", _SINK)):
        (folder / f"{name}.json").write_text(json.dumps(options))
    found = folder / "found.json"
    found.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert found.exists(), done.stderr
    answer: dict[str, Any] = json.loads(found.read_text())
    return answer | {"code": done.returncode}


@pytest.mark.parametrize("command", _COMMANDS, ids=lambda command: " ".join(command.arguments[:2]))
def test_a_command_loads_what_it_uses(command: _Command, tmp_path: Path) -> None:
    """No library that it has no use for; who brought one is named."""
    found = _run(tmp_path, command.arguments)

    assert found["code"] in command.codes
    brought = {
        name: " <- ".join(found["chains"].get(name, ["?"])[:8])
        for name in command.without.intersection(found["modules"])
    }
    assert brought == {}
    count = Counter(name.partition(".")[0] for name in found["modules"])
    assert len(found["modules"]) <= command.modules, count.most_common(12)


def _cpu_seconds(*arguments: str, folder: Path) -> float:
    """CPU of a Python process; the least of three, because what else runs here only adds to it."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, check=True, timeout=280)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def test_a_quiet_command_takes_little_cpu(tmp_path: Path) -> None:
    """Measured by typer's own import, a machine's speed apart: it was 20 times that, and is 5."""
    (tmp_path / "source.json").write_text(json.dumps(_SOURCE))
    yardstick = _cpu_seconds("-c", "import typer", folder=tmp_path)

    for arguments, most in ((("--version",), 4), (("lint", "source.json"), 9)):
        used = _cpu_seconds("-m", "ingest", *arguments, folder=tmp_path)
        assert used < most * yardstick, f"{arguments}: {used:.2f} s, and importing typer {yardstick:.2f} s"
