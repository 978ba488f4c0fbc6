"""How many files a process may have open: what it may, it has, from the start of `run` and `worker` on."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from headrace.process.own_process import raised

_SOFT: Final = 256
_ENDLESS: Final = resource.RLIM_INFINITY
_RAISE: Final = "from headrace.process.own_process import raise_descriptor_limit as call; args = ()"
# Without Java there is nothing after it.
_COMMAND: Final = """
from pathlib import Path
from ingest.cli import run as commands
def call(name, file):
    try:
        getattr(commands, name)(Path(file))
    except commands.InvalidConfiguration as error:
        assert "JAVA_HOME" in str(error), error
"""
_TOLD: Final = """
import json, resource
returned = call(*args)
print(json.dumps([returned, *resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""


def limits_after(code: str, soft: int, hard: int) -> tuple[list[int | None], str]:
    """What a process of these limits returns, its limits then, and what it logged."""
    done = subprocess.run(
        [sys.executable, "-c", code + _TOLD],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "JAVA_HOME": "/nowhere"},  # noqa: TID251 - a child's
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )
    found: list[int | None] = json.loads(done.stdout)
    return found, done.stderr


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [
        (1_024, 524_288, 65_536),  # systemd
        (1_024, _ENDLESS, 65_536),
        (1_024, 4_096, 4_096),
        (1_024, 1_024, 1_024),
        (1_048_576, 1_048_576, 1_048_576),
        (100_000, _ENDLESS, 100_000),
        (_ENDLESS, _ENDLESS, _ENDLESS),
    ],
)
def test_what_is_permitted_is_taken(soft: int, hard: int, then: int) -> None:
    """As far as it is of use, and nothing is lowered."""
    assert raised(soft, hard) == then


@pytest.mark.parametrize(("soft", "then"), [(256, 300), (300, 300)])
def test_the_process_has_it(soft: int, then: int) -> None:
    """And the hard limit stays."""
    assert limits_after(_RAISE, soft, 300)[0] == [then, then, 300]


@pytest.mark.parametrize("command", ["run", "worker"])
def test_a_service_begins_with_it(command: str, tmp_path: Path) -> None:
    """Before its JVM is started: what that starts has as many."""
    config = {"bootstrap.servers": "127.0.0.1:1"}
    if command == "run":
        config |= {"name": "a", "aws.s3.bucket.name": "uploads", "topic": "t", "file.name.template": ".*"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    code = f"{_COMMAND}\nargs = ({command!r}, {str(tmp_path / 'config.json')!r})"

    limits, logged = limits_after(code, _SOFT, 1_024)
    assert limits[1:] == [1_024, 1_024]
    # A connector alone needs less than that.
    assert ("open_files_limited" in logged) == (command == "worker")
    assert ('"connectors": 32' in logged) == (command == "worker")

    assert "open_files_limited" not in limits_after(code, _SOFT, 4_096)[1]
