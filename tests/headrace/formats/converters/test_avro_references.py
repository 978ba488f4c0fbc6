"""Types of Avro that are defined in the schemas of other subjects, however far and wherever in them."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converted_records import Conversion
from headrace.options.sink_settings import OutputFormat
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import avro, datum, http_registry


def _record(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "x", "type": kind, **more}]}


_B: Final = {**_record("B", "int", values={"no": "type"}), "namespace": "n"}
_A: Final = {**_record("A", "n.B"), "namespace": "n"}
_MAIN: Final = {
    "type": "record",
    "name": "M",
    "namespace": "n",
    "fields": [{"name": "b", "type": "n.B"}, {"name": "a", "type": "A"}],
}
_WHOLE: Final = {**_MAIN, "fields": [{"name": "b", "type": _B}, {"name": "a", "type": _A}]}
_ROW: Final = {"b": {"x": 1}, "a": {"x": {"x": 2}}}


def _read(
    main: Any,
    subjects: Mapping[str, tuple[Any, str | None]],
    data: bytes,
    wanted: OutputFormat = OutputFormat.PARQUET,
) -> Conversion:
    """What is read by a schema that refers to `a`; of each subject its schema, and what that refers to."""

    def shape(schema: Any, to: str | None) -> dict[str, Any]:
        references = [] if to is None else [{"name": to, "subject": to, "version": 1}]
        return {"schema": json.dumps(schema), "references": references}

    answers: dict[str, tuple[int, Any]] = {"/schemas/ids/1": (200, shape(main, "a"))}
    for number, (name, (schema, to)) in enumerate(subjects.items(), 2):
        found = {"subject": name, "version": 1, "id": number, **shape(schema, to)}
        answers[f"/subjects/{name}/versions/1"] = (200, found)
    with http_registry(answers) as (one, _):
        settings, how = converters(avro(one)), output(wanted)
        return RecordConverter(settings, how).convert(fetched([b"\x00\x00\x00\x00\x01" + data]))


@pytest.mark.parametrize(
    "subjects",
    [
        pytest.param({"a": (_A, "b"), "b": (_B, None)}, id="by another subject"),
        pytest.param({"a": ({**_A, **_record("A", _B)}, None), "b": (_B, None)}, id="within another"),
        pytest.param({"a": ([_B, _A], None)}, id="in a union"),
        pytest.param({"a": ({**_record("Z", {"type": "array", "items": [_B, _A]})}, None)}, id="in a list"),
        pytest.param(
            {"a": (_record("Z", {"type": {"type": "map", "values": _A}}), "b"), "b": (_B, None)}, id="map"
        ),
        pytest.param(
            {
                "a": (
                    {
                        **_A,
                        **_record(
                            "A",
                            {**_B, "namespace": ""},
                        ),
                    },
                    "b",
                ),
                "b": (_B, None),
            },
            id="namesakes",
        ),
    ],
)
def test_a_type_is_known_however_far_it_is(subjects: Mapping[str, tuple[Any, str | None]]) -> None:
    """And may be used before that of the subject it came by."""
    found = _read(_MAIN, subjects, datum(_WHOLE, _ROW))

    assert found.faults == ()
    assert [row for run in found.runs for row in run.value.arrow().to_pylist()] == [_ROW]


def test_a_type_may_hold_itself_through_a_subject() -> None:
    """It is defined where it is first used."""
    tree = {**_record("A", ["null", "A"]), "namespace": "n"}
    main = {"type": "record", "name": "M", "fields": [{"name": "a", "type": "n.A"}]}
    data = datum({**main, "fields": [{"name": "a", "type": tree}]}, {"a": {"x": {"x": None}}})

    found = _read(main, {"a": (tree, None)}, data, OutputFormat.JSONL)

    assert [json.loads(run.value.texts().get(0) or b"") for run in found.runs] == [{"a": {"x": {"x": None}}}]


@pytest.mark.parametrize("text", ["no JSON", {"fields": []}, {"type": "record"}, {"type": "array"}])
def test_a_reference_that_is_no_schema_is_no_matter_of_the_registry(text: Any) -> None:
    """The record is bad, and the registry is not tried again for it."""
    found = _read(_MAIN, {"a": (text, None)}, b"\x02")

    assert [fault.reason for fault in found.faults] == ["schema_unsupported"]
