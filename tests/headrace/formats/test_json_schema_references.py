"""References of JSON Schema mean what they mean in Java, whichever way they are written."""

import json
from typing import Any, Final

import pytest

from headrace.formats.connect.schema import ConnectSchema, InvalidSchema, Type
from headrace.formats.connect.schema_documents import schema_of_json_schema

_AT: Final = "https://x.org/s/"
_DRAFT_4: Final = "http://json-schema.org/draft-04/schema#"
_TEXT: Final = {"type": "string"}
_CUSTOMER: Final = {"type": "object", "properties": {"n": _TEXT}}


def _member(schema: dict[str, Any], reference: str, files: dict[str, Any] | None = None) -> ConnectSchema:
    """What a member is that refers to it."""
    whole = {"type": "object", "properties": {"c": {"$ref": reference}}, **schema}
    texts = {name: json.dumps(each) for name, each in (files or {}).items()}
    found = schema_of_json_schema(json.dumps(whole), texts).field("c")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("own", "reference", "name", "theirs"),
    [
        pytest.param(None, "customer.json", "customer.json", None, id="by name"),
        pytest.param(None, "customer.json", "customer.json", f"{_AT}customer.json", id="by name, with an id"),
        pytest.param(
            f"{_AT}order.json", f"{_AT}customer.json", "customer.json", None, id="absolute, of a name"
        ),
        pytest.param(
            f"{_AT}order.json", "customer.json", f"{_AT}customer.json", None, id="relative, of an address"
        ),
        pytest.param(None, f"{_AT}customer.json", "other", f"{_AT}customer.json", id="by its id"),
        pytest.param(f"{_AT}order.json", "../t/c.json", "https://x.org/t/c.json", None, id="elsewhere"),
        pytest.param(None, "./customer.json", "customer.json", None, id="from here"),
        pytest.param(None, "customer.json", "./customer.json", None, id="named from here"),
        pytest.param(
            "urn:order", "customer.json", "customer.json", None, id="next to a name that is no place"
        ),
        pytest.param(None, "customer.json#", "customer.json", None, id="with an empty place"),
        pytest.param("http://[", "customer.json", "customer.json", None, id="next to no address"),
    ],
)
def test_a_reference_is_found_by_any_of_its_names(
    own: str | None, reference: str, name: str, theirs: str | None
) -> None:
    """Its own, relative or not, and what the document says."""
    schema = {} if own is None else {"$id": own}
    customer = _CUSTOMER if theirs is None else {"$id": theirs, **_CUSTOMER}

    assert _member(schema, reference, {name: customer}).field("n") is not None


@pytest.mark.parametrize(
    ("schema", "reference"),
    [
        ({"definitions": {"List<String>": _TEXT}}, "#/definitions/List%3CString%3E"),
        ({"definitions": {"a%20b": _TEXT}}, "#/definitions/a%20b"),
        ({"definitions": {"a/b~c": _TEXT}}, "#/definitions/a~1b~0c"),
        ({"$id": f"{_AT}o.json", "definitions": {"a": _TEXT}}, f"{_AT}o.json#/definitions/a"),
        ({"$id": f"{_AT}o.json", "definitions": {"a": _TEXT}}, "o.json#/definitions/a"),
        ({"definitions": {"a": {"$id": "#a", **_TEXT}}}, "#a"),
        ({"$defs": {"a": {"$anchor": "a", **_TEXT}}}, "#a"),
        ({"$id": f"{_AT}o.json", "definitions": {"a": {"$id": "item.json", **_TEXT}}}, "item.json"),
        (
            {"$schema": _DRAFT_4, "id": f"{_AT}o.json", "definitions": {"a": _TEXT}},
            f"{_AT}o.json#/definitions/a",
        ),
        ({"definitions": {"all": [_TEXT, {"type": "integer"}]}}, "#/definitions/all/0"),
    ],
)
def test_a_place_in_the_document_is_found(schema: dict[str, Any], reference: str) -> None:
    """By its steps, by an anchor, or by an `$id` of its own."""
    assert _member(schema, reference).type is Type.STRING


def test_references_of_a_reference_are_resolved_where_it_is() -> None:
    """And by their plain names, as they are registered."""
    files = {
        "a/x.json": {
            "type": "object",
            "properties": {"y": {"$ref": "y.json"}, "z": {"$ref": "z.json#/definitions/z"}},
        },
        "a/y.json": _TEXT,
        "z.json": {"definitions": {"z": {"type": "boolean"}}},
    }

    found = _member({}, "a/x.json", files)

    assert [each.schema.type for each in found.fields] == [Type.STRING, Type.BOOLEAN]


def test_what_two_members_of_all_refer_to_is_no_circle() -> None:
    """Only what leads back to itself is one."""
    base = {"type": "object", "properties": {"c": _TEXT}}
    definitions = {"base": base, "more": {"allOf": [{"$ref": "#/definitions/base"}]}}
    both = [{"$ref": "#/definitions/base"}, {"$ref": "#/definitions/more"}]

    found = schema_of_json_schema(json.dumps({"allOf": both, "definitions": definitions}), {})

    assert [each.name for each in found.fields] == ["c"]


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("o.json", r"refers to itself \(o.json\)"),
        (f"{_AT}o.json#", "refers to itself"),
        ("#nowhere", "which is not there"),
        ("#/properties/c/5", "which is not there"),
        ("#/definitions/all/7", "which is not there"),
        ("p.json", "not among its references"),
    ],
)
def test_what_is_not_there_is_told(reference: str, sentence: str) -> None:
    """And what leads back, under whichever name."""
    schema = {"$id": f"{_AT}o.json", "definitions": {"all": [_TEXT]}}

    with pytest.raises(InvalidSchema, match=sentence):
        _member(schema, reference)
