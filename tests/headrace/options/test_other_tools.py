"""Files of Redpanda Connect and Vector: the sentence says what they are, and which page is about them."""

from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from headrace.options import SettingsError
from headrace.options.configuration_text import FileKind
from headrace.vendors.load import load
from ingest.cli.app import app
from tests.docs.pages import blocks
from tests.headrace.options.loading import no_file

_ROOT: Final = Path(__file__).parents[3]
_REDPANDA: Final = "docs/moving-from-redpanda-connect.md"
_VECTOR: Final = "docs/moving-from-vector.md"
_BENTHOS: Final = """
# Of Benthos, too
http:
  enabled: true
input:
  label: ""
  aws_s3: {bucket: landing, sqs: {url: "${QUEUE}"}}

pipeline:
  processors:
    - mapping: |
        root = this
        root.a.b.c.d.e = !this.f
output:
  broker:
    outputs:
      - a: {b: {c: {d: {e: {f: 1}}}}}
"""
_TOML: Final = """
data_dir = "/var/lib/vector"

[sources.bucket]
type = "aws_s3"
sqs.queue_url = "https://sqs.us-east-1.amazonaws.com/1/q"

[sinks.kafka]
inputs = ["bucket"]
"""


def _refused(text: str, kind: FileKind) -> str:
    with pytest.raises(SettingsError) as refused:
        load(text, kind=kind, environment={}, read_file=no_file)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "kind", "page"),
    [
        (_BENTHOS, "yaml", _REDPANDA),
        (_BENTHOS, "json", _REDPANDA),
        ("output:\n  aws_s3:\n    bucket: b\n", "yaml", _REDPANDA),
        ('{"input": {"aws_s3": {"bucket": "b"}}, "output": {"drop": {}}}', "json", _REDPANDA),
        ('{"input": {"aws_s3": {"bucket": "b"}}, "output": {"drop": {}}}', "yaml", _REDPANDA),
        ('"input":\n    # what is read\n\n    aws_s3: {}\n', "yaml", _REDPANDA),
        ("input: {aws_s3: {bucket: b}}\noutput: {drop: {}}\n", "yaml", _REDPANDA),
        ("input_resources:\n  - label: in\n    kafka: {topics: [t]}\n", "yaml", _REDPANDA),
        ('{"output_resources": [{"label": "out", "aws_s3": {"bucket": "b"}}]}', "json", _REDPANDA),
        (_TOML, "json", _VECTOR),
        ("role: Agent\ncustomConfig:\n  sinks:\n    s3: {type: aws_s3}\n", "yaml", _VECTOR),
        (_TOML, "yaml", _VECTOR),
        ('sources.s3.type = "aws_s3"\n', "json", _VECTOR),
        ('[[ sinks."my kafka" ]]\n', "json", _VECTOR),
        ("sinks:\n  kafka:\n    type: kafka\n    topic: t\n", "yaml", _VECTOR),
        ('{"sources": {"s": {"type": "aws_s3"}}, "sinks": {"k": {"type": "kafka"}}}', "json", _VECTOR),
    ],
)
def test_what_the_file_is_of_is_said(text: str, kind: FileKind, page: str) -> None:
    """And nothing else of it, which may be long, or a secret."""
    said = _refused(text, kind)
    tool = "Redpanda Connect" if page == _REDPANDA else "Vector"
    assert f"this is a configuration of {tool} (" in said
    assert f"{page} has what each of its options becomes" in said
    assert len(said.splitlines()) == 1
    assert (_ROOT / page).exists()


@pytest.mark.parametrize("page", [_REDPANDA, _VECTOR])
def test_the_pages_own_examples_are_such_files(page: str) -> None:
    """Of both directions, each next to what it becomes."""
    found = [each for each in blocks(_ROOT / page) if each.language in {"yaml", "toml"}]
    assert len(found) == 2
    for each in found:
        assert page in _refused(each.text, "yaml" if each.language == "yaml" else "json")
    assert len([each for each in blocks(_ROOT / page) if each.language == "json"]) >= 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sources:\n  - name: raw\n    tables: []\n", "yaml"),
        ("input: jsonl\noutput: t\n", "yaml"),
        ("inputs:\n  a: b\n", "yaml"),
        ('{"input": "jsonl"}', "json"),
        ("spec:\n  input:\n    a: b\n", "yaml"),
        ("name: a\ninput:\n", "yaml"),
        ("sinks.note: a=b\n", "yaml"),
        ("sinks = 1\n", "json"),
        ("sources.s3.type=aws_s3\n", "properties"),
    ],
)
def test_what_only_has_such_words_is_not_taken_for_one(text: str, kind: FileKind) -> None:
    """Lists, texts, other places."""
    assert "this is a configuration of" not in _refused(text, kind)


@pytest.mark.parametrize("pattern", ["input:\n    a: b", "[sources.[a-z]+]", "sources.a = 1"])
def test_a_connectors_text_may_have_their_words(pattern: str) -> None:
    """In a value, of several lines."""
    text = (
        "name: a\nbootstrap.servers: b:1\naws.s3.bucket.name: bucket\ntopic: t\nfile.name.template: .*\n"
        "input.format: text\ntext.start.pattern: |-\n"
        f"  {pattern}\n"
    )
    assert load(text, kind="yaml", environment={}, read_file=no_file).name == "a"


@pytest.mark.parametrize("command", [["run"], ["check"], ["lint"], ["translate"], ["explain"], ["plan"]])
@pytest.mark.parametrize(("name", "text"), [("pipeline.yaml", _BENTHOS), ("vector.toml", _TOML)])
def test_every_command_says_it(tmp_path: Path, command: list[str], name: str, text: str) -> None:
    """Before anything is asked."""
    file = tmp_path / name
    file.write_text(text)
    keys = ["a/key"] if command == ["explain"] else []
    result = CliRunner().invoke(app, [*command, str(file), *keys])
    said = f"{result.exception} {result.output}"
    assert result.exit_code
    assert "this is a configuration of " in said
    assert "docs/moving-from-" in said
