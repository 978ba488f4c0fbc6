"""`status` and `plan` of a query of Spark whose options are wrong, or whose state.path is no log."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.model.errors import Exit, InvalidConfiguration, Unavailable, exit_code
from ingest.cli.plan import plan
from ingest.cli.status import status


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": "nonsense"}, "rows"),
        ({"aws.s3.bucket.name": "a12,b12"}, "a query reads one bucket"),
        ({"state.path": "s3://b12"}, "with a prefix of its own"),
    ],
)
def test_wrong_options_of_a_query_are_the_configurations(
    tmp_path: Path, options: dict[str, str], words: str
) -> None:
    """As those of a connector are; the sentence is the one that a query fails with."""
    file = tmp_path / "query.json"
    file.write_text(json.dumps({"aws.s3.bucket.name": "b12", "state.path": str(tmp_path / "log"), **options}))
    for command in (status, plan):
        with pytest.raises(InvalidConfiguration, match=words) as raised:
            command(file)
        assert exit_code(raised.value) is Exit.CONFIGURATION


@pytest.mark.parametrize("name", ["log.json", "committed.json"])
def test_a_foreign_file_at_the_state_path_is_the_configurations(tmp_path: Path, name: str) -> None:
    """The place is not this query's: an error of a command, which ends no query."""
    log = tmp_path / "log"
    log.mkdir()
    about = {"version": 1, "id": "i", "bucket": "b12", "prefix": "", "made_ms": 1}
    (log / "log.json").write_text(json.dumps(about))
    (log / name).write_text("something else")
    file = tmp_path / "query.json"
    file.write_text(json.dumps({"aws.s3.bucket.name": "b12", "state.path": str(log)}))

    with pytest.raises(InvalidConfiguration, match=f"{name} .*state.path of its own") as raised:
        status(file)

    assert exit_code(raised.value) is Exit.CONFIGURATION


def test_a_state_path_that_does_not_answer_is_unusable(tmp_path: Path) -> None:
    """It may answer the next time."""
    file = tmp_path / "query.json"
    given = {
        "aws.s3.bucket.name": "b12",
        "state.path": "s3://log/of/it",
        "aws.s3.endpoint": "http://127.0.0.1:1",
        "aws.access.key.id": "test",
        "aws.secret.access.key": "test",
    }
    file.write_text(json.dumps(given))

    with pytest.raises(Unavailable, match="is out of reach") as raised:
        status(file)

    assert exit_code(raised.value) is Exit.UNUSABLE


@pytest.mark.parametrize("command", [status, plan])
def test_a_connectors_options_may_come_from_a_pipe(command: Callable[[Path], None]) -> None:
    """As `headrace lint <(..)`: looked at for `state.path` first, they were gone."""
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"name": "orders", "tasks.max": "many"}')
        os.close(writing)
        with pytest.raises(InvalidConfiguration, match=r"tasks\.max = 'many'"):
            command(Path(f"/dev/fd/{reading}"))
    finally:
        os.close(reading)
