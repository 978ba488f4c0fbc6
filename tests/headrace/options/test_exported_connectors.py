"""What a worker answers of all its connectors as a configuration: that of the one that is in it."""

import json
from typing import Final

import pytest

from headrace.options import Settings, SettingsError
from headrace.options.configuration_text import FileKind
from headrace.vendors.load import load
from tests.headrace.options.loading import COMPLETE, no_file

_INFO: Final = {
    "info": {"name": "uploads", "config": dict(COMPLETE), "tasks": [], "type": "source"},
    "status": {"name": "uploads", "connector": {"state": "RUNNING"}, "tasks": []},
}


@pytest.mark.parametrize("kind", ["json", "yaml"])
@pytest.mark.parametrize("asked", [{"info"}, {"info", "status"}])
def test_an_export_of_one_connector_is_its_configuration(kind: FileKind, asked: set[str]) -> None:
    """`GET /connectors?expand=info` is what a whole worker is saved by; whatever the connector's name."""
    for name in ("uploads", "input", "config"):
        text = json.dumps({name: {each: _INFO[each] for each in asked}})
        assert _read(text, kind).name == "uploads"


@pytest.mark.parametrize(
    ("export", "sentence"),
    [
        (
            {"a": _INFO, "b\n": _INFO},
            r"this is an export of 2 connectors (a, b\n), and one is read: keep one of them in the file, ",
        ),
        ({"a": _INFO, "b": _INFO}, "or save what GET /connectors/a answers, each connector in a file of its"),
        ({f"c{n}": _INFO for n in range(12)}, "(c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 2 more)"),
        ({"a": {"status": {}}}, "the connector a without its configuration"),
    ],
)
def test_an_export_of_another_number_of_connectors_is_none(export: object, sentence: str) -> None:
    """One sentence, and not that each of them is an object."""
    with pytest.raises(SettingsError) as raised:
        _read(json.dumps(export))
    (problem,) = raised.value.problems
    assert sentence in problem.message


@pytest.mark.parametrize("text", ['{"a": {}}', '{"a": {"info": {}}, "topic": "t"}', '{"a": {"other": {}}}'])
def test_what_is_no_export_is_read_as_before(text: str) -> None:
    """An option is no object."""
    with pytest.raises(SettingsError, match="a: is an object; expected a text"):
        _read(text)


def _read(text: str, kind: FileKind = "json") -> Settings:
    return load(text, kind=kind, environment={}, read_file=no_file)
