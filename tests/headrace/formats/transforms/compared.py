"""Records through this project's transforms and through the Java classes of their names: what differs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headrace.formats.connect.json_text import connect_json
from headrace.formats.connect.payloads import as_connect
from headrace.formats.converted_records import ConvertedColumn, Form
from headrace.formats.converters.typed_columns import TypedColumn
from tests.headrace.formats.transforms.transformed import JSON, Row, chain, converted, sink_of
from tests.support.connect_schemas import json_of_schema
from tests.support.connect_transforms import Given, connect_answers

# Differences that are meant: Java writes any year, and Kafka takes the default of a field of a null.
_BEYOND: Final = "the date cannot be written"


def differences(given: Sequence[Given], *locks: Path) -> list[str]:
    """What of the records differs, as texts to be read; none where both do the same."""
    found = []
    for each, answer in zip(given, connect_answers(given, *locks), strict=True):
        ours = _ours(each)
        if _is_null_extracted(each) and ours.get("value", "") is None:
            continue
        if "refused" in ours and ("error" in answer or _BEYOND in ours["refused"][0]):
            continue
        for part in ("key", "value"):
            # A null is written as one, whatever schema it has.
            if isinstance(answer.get(part), dict) and each.has_schemas and answer[part]["payload"] is None:
                answer[part] = None
        for sides in (ours, answer):
            # Objects in headers keep their escapes here, and numbers their digits.
            sides["headers"] = [_loosely(pair) for pair in sides.get("headers", ())]
        for part in {"key", "value"} - _parts(each):
            answer[part] = ours[part] = None
        if ours != answer:
            found.append(
                f"{[dict(step) for step in each.steps]}\n  of {each.json()}\n"
                f"  is {json.dumps(answer)}\n  here {json.dumps(ours)}"
            )
    return found


def _is_null_extracted(given: Given) -> bool:
    is_extracted = "ExtractField" in given.steps[0]["type"] and given.has_schemas
    return is_extracted and given.value is not None and given.value["payload"] is None


def _loosely(header: list[Any]) -> list[Any]:
    name, text = header
    try:
        return [name, text and json.loads(text)]
    except ValueError:
        return [name, text]


def _parts(given: Given) -> set[str]:
    """What of the record the steps look into; the rest is not converted here."""
    return {str(part) for part in sink_of({**_options(given)}).transforms.looks_into}


def _options(given: Given) -> dict[str, str]:
    schemas = "true" if given.has_schemas else "false"
    return {
        "topics": given.topic,
        "key.converter": JSON,
        "key.converter.schemas.enable": schemas,
        "value.converter": JSON,
        "value.converter.schemas.enable": schemas,
        "json.format": "connect",
        "behavior.on.null.values": "write",
        **chain(*given.steps, predicates=given.predicates),
    }


def _ours(given: Given) -> dict[str, Any]:
    """The same answer as the program's, of this project's transforms."""
    headers = tuple((name, text.encode()) for name, text in given.headers)
    row = Row(given.value, given.key, headers=headers, topic=given.topic)
    found = converted(_options(given), [row])
    if found.faults:
        return {"refused": [fault.message for fault in found.faults]}
    if not found.runs:
        return {"dropped": True}
    (run,) = found.runs
    return {
        "topic": run.records.topic,
        "key": _plain(run.key, has_schemas=given.has_schemas),
        "value": _plain(run.value, has_schemas=given.has_schemas),
        "headers": [
            [name, None if text is None else text.decode()]
            for name, text in ((run.records.headers or [()])[0])
        ],
    }


def _plain(column: ConvertedColumn, *, has_schemas: bool) -> Any:
    """The value as Connect's JSON, which has the defaults of null fields."""
    if column.nulls()[0]:
        return None
    schema = column.connect if has_schemas else None
    if schema is None or not isinstance(column, TypedColumn):
        payload: Any = column.texts().get(0)
        payload = payload.decode() if column.form in {Form.TEXT, Form.BYTES} else json.loads(payload)
    else:
        payload = json.loads(connect_json(as_connect(column.arrow(), schema), schema)[0].as_py())
    if not has_schemas:
        return payload
    return None if schema is None else {"schema": json_of_schema(schema), "payload": payload}


def shown(differences: list[str]) -> str:
    """How many there are, and the first of them."""
    return f"{len(differences)} differ, such as\n" + "\n".join(differences[:3])
