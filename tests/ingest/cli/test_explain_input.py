"""Keys that `explain` is given, as text from anywhere: a pipe, a file, another tool's output."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headrace.model.errors import InvalidConfiguration
from ingest.cli.explain import explain

_ROUTED = [
    "--set",
    "transforms.r.type=org.apache.kafka.connect.transforms.RegexRouter",
    "--set",
    "transforms.r.regex=(.*)",
    "--set",
    "transforms.r.replacement=new-$1",
]


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """A configuration that routes by key."""
    file = tmp_path / "keys.json"
    file.write_text(
        json.dumps(
            {
                "name": "uploads",
                "bootstrap.servers": "127.0.0.1:9092",
                "aws.s3.bucket.name": "bucket",
                "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}",
            }
        )
    )
    return file


def _explained(configuration: Path, given: bytes, *arguments: str) -> str:
    app = typer.Typer()
    app.command()(explain)
    result = CliRunner().invoke(app, [str(configuration), "-", *arguments], input=given)
    assert result.exit_code == 0, result.exception
    return result.stdout


def test_lines_end_as_they_do_on_any_system(configuration: Path) -> None:
    """LF, CRLF, or the end."""
    lines = _explained(configuration, b"a-1-2\nb-3-4\r\nc-5-6", "--json").splitlines()

    assert [json.loads(line)["key"] for line in lines] == ["a-1-2", "b-3-4", "c-5-6"]


def test_what_is_no_utf8_is_shown_and_ends_nothing(configuration: Path) -> None:
    """The next line is explained as ever."""
    text = _explained(configuration, b"\xff\xfe\x1b[31m\nb-3-4\n")

    assert text.splitlines()[0].startswith("\\udcff\\udcfe\\x1b[31m: no match")
    assert text.splitlines()[1] == "b-3-4: topic b, partition 3, start offset 4"
    assert "\\udcff" in _explained(configuration, b"\xff\n", "--json")


def test_a_line_without_a_key_is_passed_over(configuration: Path) -> None:
    """Lists of keys end with one, and S3 has no empty key."""
    lines = _explained(configuration, b"a-1-2\n\n\r\nb-3-4\n\n", "--json").splitlines()

    assert [json.loads(line)["key"] for line in lines] == ["a-1-2", "b-3-4"]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("in/a-1-2/", "a key that ends in / is a folder"),
        ("in/.indexes/a-1-2", "other tools keep their own files under such keys"),
        ("in/a-1-2.tmp", "object.exclude leaves it out"),
        ("b-1-2", "object.include leaves it out"),
    ],
)
def test_what_run_passes_over_is_no_match(configuration: Path, key: str, reason: str) -> None:
    """Whatever the template makes of it: it said the topic of a key that never comes."""
    globs = ["--set", "object.include=in/*", "--set", "object.exclude=*.tmp"]
    (line,) = _explained(configuration, f"{key}\n".encode(), "--json", *globs).splitlines()
    found = json.loads(line)

    assert (found["matched"], found["topic"]) == (False, None)
    assert found["reason"].startswith(reason)


@pytest.mark.parametrize("more", [[], ["--set", "transforms=r", *_ROUTED]], ids=["", "with transforms"])
def test_a_key_that_names_no_topic_is_no_match(configuration: Path, more: list[str]) -> None:
    """`run` skips it as one that the template does not take: what names a topic from another has none."""
    template = ["--set", "file.name.template=(?:{{topic}}/)?data-{{partition}}"]
    given = b"orders/data-3\ndata-3\n"
    named, nameless = map(
        json.loads, _explained(configuration, given, "--json", *template, *more).splitlines()
    )

    assert (named["matched"], named["partition"]) == (True, 3)
    assert (nameless["matched"], nameless["topic"], nameless["partition"]) == (False, None, None)
    assert nameless["reason"] == "the key names no topic; set topic"


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (".", "Kafka takes no topic of the name '.'"),
        ("..", "Kafka takes no topic of the name '..'"),
        ("a" * 250, "Kafka takes no topic of the name 'aaa"),
        ("uploads-offsets", "uploads-offsets is the ledger, into which no record is written"),
        ("a" * 249, None),
    ],
)
def test_a_topic_that_no_record_comes_to_is_told(configuration: Path, topic: str, reason: str | None) -> None:
    """The template takes the key, and `run` quarantines the object."""
    (line,) = _explained(configuration, f"{topic}-1-2".encode(), "--json").splitlines()
    found = json.loads(line)

    assert (found["matched"], found["topic"]) == (True, topic)
    assert found["reason"] is None if reason is None else found["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("restored", "partition", "why"),
    [
        ("original", 7, ""),
        ("modulo", None, "restore.partition=modulo: the number of the topic's partitions decides"),
        ("partitioner", None, "restore.partition=partitioner: the key of each record decides"),
    ],
)
def test_an_archives_partition_is_told_where_it_decides(
    tmp_path: Path, restored: str, partition: int | None, why: str
) -> None:
    """It named the archive's own, where no record goes by it."""
    file = tmp_path / "restore.json"
    options = {"name": "back", "bootstrap.servers": "127.0.0.1:9092", "aws.s3.bucket.name": "bucket"}
    file.write_text(json.dumps({**options, "input.layout": "confluent", "restore.partition": restored}))
    key = b"topics/orders/partition=7/orders+7+0000000042.json"

    found = json.loads(_explained(file, key, "--json"))

    assert (found["topic"], found["partition"], found["start_offset"]) == ("orders", partition, 42)
    assert why in found["reason"]


def test_standard_input_cannot_be_configuration_and_keys(configuration: Path) -> None:
    """What is read once is gone: it explained nothing, and that was a success."""
    app = typer.Typer()
    app.command()(explain)
    text = configuration.read_bytes()

    with pytest.raises(InvalidConfiguration, match="Standard input is the configuration"):
        CliRunner().invoke(app, ["-", "a-1-2", "-"], input=text, catch_exceptions=False)

    said = CliRunner().invoke(app, ["-", "a-1-2"], input=text, catch_exceptions=False)
    assert said.stdout == "a-1-2: topic a, partition 1, start offset 2\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topic", ""], "--topic '': Kafka has no topic of such a name"),
        (["--topic", "a b"], "--topic 'a b': Kafka has no topic of such a name"),
        (["k", "--offset", "3"], "--offset choose a record of --topic"),
        (["k", "--partition", "0"], "--offset choose a record of --topic"),
        (["k", "--offset", "0"], "--offset choose a record of --topic"),
        (["k", "--partition", "3"], "--partition and"),
    ],
)
def test_what_names_no_record_is_refused(configuration: Path, arguments: list[str], said: str) -> None:
    """The client answers an empty name with an error of its own; a place without a topic was ignored."""
    app = typer.Typer()
    app.command()(explain)

    result = CliRunner().invoke(app, [str(configuration), *arguments])

    assert isinstance(result.exception, InvalidConfiguration)
    assert said in str(result.exception)
