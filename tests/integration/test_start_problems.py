"""A start that cannot work ends in one clear sentence and an exit code, never in a stack trace."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from headrace.kafka.admin import KafkaAdmin
from tests.support import aws, kafka
from tests.support.forked_commands import ForkedCommands, forked_commands
from tests.support.service import Route, new_route

pytestmark = pytest.mark.parts

# Less than what is not there is waited for, unless --startup-timeout says otherwise: a minute.
_STARTUP_SECONDS: Final = 55


@pytest.fixture(scope="module")
def route(tmp_path_factory: pytest.TempPathFactory) -> Route:
    """A route on which nothing is wrong."""
    return new_route(tmp_path_factory.mktemp("problems"))


@pytest.fixture(scope="module")
def headrace() -> Iterator[ForkedCommands]:
    """The command, each time in a process of its own."""
    with forked_commands() as commands:
        yield commands


def run(headrace: ForkedCommands, file: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and what a person sees of `headrace run`, log lines left out."""
    done = headrace.run("run", file, *arguments)
    assert "Traceback" not in done.stderr
    return done.code, "\n".join(line for line in done.stderr.splitlines() if not line.startswith("{"))


# A server that is never asked, as what is wrong is found before: a process without a JVM of its own.
_WITHOUT_SPARK: Final = {"spark__remote": "sc://127.0.0.1:1"}


def configuration(route: Route, **changes: object) -> Path:
    """A configuration file of the route, with a name of its own."""
    name = aws.unique("problem")
    file = route.folder / f"{name}.json"
    file.write_text(json.dumps({"name": name, **route.options(http__listen="", **changes)}))
    return file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{", "line 1", id="broken JSON"),
        pytest.param('{"name": "n", "topik": "t"}', "topik: is not an option", id="unknown option"),
        pytest.param("[]", "object", id="no object"),
    ],
)
def test_a_broken_configuration(headrace: ForkedCommands, tmp_path: Path, text: str, expected: str) -> None:
    """The file is named, and what is wrong in it."""
    file = tmp_path / "broken.json"
    file.write_text(text)

    code, said = run(headrace, file)

    assert code == 2
    assert "broken.json" in said
    assert expected in said


def test_a_configuration_that_is_not_there(headrace: ForkedCommands, tmp_path: Path) -> None:
    """As every other problem of the configuration."""
    code, said = run(headrace, tmp_path / "nowhere.json")

    assert code == 2
    assert "nowhere.json cannot be read: No such file or directory" in said


@pytest.mark.parametrize(
    ("changes", "code", "expected"),
    [
        pytest.param(
            {"topic": "nobody-made-it", **_WITHOUT_SPARK},
            2,
            "Topic 'nobody-made-it' does not exist. Create it (`headrace setup CONFIG` makes those that the "
            "configuration names), or set topic.creation.default.partitions",
            id="topic",
        ),
        pytest.param(
            {"bootstrap__servers": "127.0.0.1:1", **_WITHOUT_SPARK},
            3,
            "bootstrap.servers = '127.0.0.1:1'",
            id="broker",
        ),
        pytest.param(
            {"spark__master": "spark://127.0.0.1:1"},
            3,
            "spark.master = 'spark://127.0.0.1:1' cannot be reached (127.0.0.1:1: Connection refused).",
            id="Spark",
        ),
        pytest.param(
            {"spark__master": "spark://nowhere"},
            2,
            "spark.master = 'spark://nowhere': expected",
            id="Spark without port",
        ),
        pytest.param(
            {"aws__s3__endpoint": "http://127.0.0.1:1"}, 3, "aws.s3.bucket.name", id="S3 is not there"
        ),
    ],
)
def test_what_is_not_there_is_named(
    headrace: ForkedCommands, route: Route, changes: dict[str, object], code: int, expected: str
) -> None:
    """Each with the option that names it."""
    # What is there has to answer in that time as well.
    patience = "5" if code == 3 else "60"
    found, said = run(headrace, configuration(route, **changes), "--startup-timeout", patience)

    assert (found, expected in said) == (code, True), said


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("run", ()),
        ("check", ()),
        ("setup", ("--dry-run",)),
        ("plan", ()),
        ("mark", ("--dry-run",)),
    ],
)
def test_a_bucket_that_does_not_exist(
    headrace: ForkedCommands, route: Route, verb: str, arguments: tuple[str, ...]
) -> None:
    """A final answer, as for a missing topic: at once, one code everywhere, with the remedy."""
    given = _WITHOUT_SPARK if verb == "run" else {}
    file = configuration(route, aws__s3__bucket__name="nobody-made-it", **given)
    began = time.monotonic()

    done = headrace.run(verb, file, *arguments)

    said = done.stdout + done.stderr
    assert done.code == 2, said
    assert "nobody-made-it" in said
    assert "NoSuchBucket" in said
    assert "aws.s3.bucket.name" in said
    assert "Traceback" not in said
    assert time.monotonic() - began < _STARTUP_SECONDS, "it was not at once"


@pytest.mark.parametrize(("verb", "arguments"), [("run", ()), ("setup", ("--dry-run",))])
def test_a_sinks_bucket_that_does_not_exist(
    headrace: ForkedCommands,
    route: Route,
    verb: str,
    arguments: tuple[str, ...],
    topic: kafka.TopicFactory,
) -> None:
    """As for a source: at once, and no ledger is left behind."""
    name = aws.unique("problem")
    left_out = {"topic": None, "file.name.template": None, "input.format": None, "sqs.queue.url": None}
    options = route.options(http__listen="", **left_out, **_WITHOUT_SPARK)
    options |= {"name": name, "topics": topic("orders"), "aws.s3.bucket.name": "nobody-made-it"}
    file = route.folder / f"{name}.json"
    file.write_text(json.dumps(options))
    began = time.monotonic()

    done = headrace.run(verb, file, *arguments)

    said = done.stdout + done.stderr
    assert done.code == 2, said
    assert all(word in said for word in ("nobody-made-it", "NoSuchBucket", "aws.s3.bucket.name")), said
    assert time.monotonic() - began < _STARTUP_SECONDS, "it was not at once"
    assert not KafkaAdmin({"bootstrap.servers": kafka.address()}).has_topic(f"{name}-offsets")


@pytest.mark.long
def test_a_master_that_says_nothing(headrace: ForkedCommands, route: Route) -> None:
    """Something accepts the connection, and is no master of Spark."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        master = f"spark://127.0.0.1:{listening.getsockname()[1]}"
        began = time.monotonic()

        code, said = run(headrace, configuration(route, spark__master=master), "--startup-timeout", "2")

    assert (code, f"spark.master = '{master}'" in said) == (3, True), said
    assert time.monotonic() - began < 90


def test_a_taken_port_is_a_configuration_error(headrace: ForkedCommands, route: Route) -> None:
    """Before anything is started."""
    host = aws.address().removeprefix("http://")

    code, said = run(headrace, configuration(route, **_WITHOUT_SPARK), "--set", f"http.listen={host}")

    assert code == 2
    assert f"http.listen: cannot listen on {host}" in said


def test_until_idle_ends_by_itself_and_says_that_an_object_needs_a_person(
    headrace: ForkedCommands, route: Route
) -> None:
    """Exit code 5: the good rows are there, the object with the bad one is quarantined at its position."""
    route.upload("good.jsonl", [b'{"n":1}'])
    route.uploaded.update([b'{"n":2}'])
    aws.s3().put_object(Bucket=route.bucket, Key="bad.jsonl", Body=b'{"n":2}\n{broken\n{"n":3}\n')

    code, _ = run(headrace, configuration(route), "--until-idle")

    assert code == 5
    assert route.account() == (0, 0)
