"""Flattening by shapes gives what taking each object apart gives, byte for byte."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.transforms.json_flattening import Flattening

_Raws = dict[str, msgspec.Raw]
_ORDER = {"order": {"id": 7, "place": {"city": "Ulm", "note": None}}, "at": 1.50, "who": {"name": "x"}}


def _expected(text: bytes | None, delimiter: str) -> bytes | None:
    """Member by member, as Kafka's Flatten does; None for a null, and for what is no object."""
    if text is None:
        return None
    try:
        members = msgspec.json.decode(text, type=_Raws)
    except msgspec.DecodeError:
        return None
    found: _Raws = {}

    def walk(objects: _Raws, prefix: str) -> None:
        for name, member in objects.items():
            if bytes(member).startswith(b"{"):
                walk(msgspec.json.decode(member, type=_Raws), f"{prefix}{name}{delimiter}")
            else:
                found[prefix + name] = member

    walk(members, "")
    return msgspec.json.encode(found)


def _check(texts: list[bytes | None], delimiter: str = ".") -> None:
    refused: list[int] = []
    expected = [_expected(text, delimiter) for text in texts]

    assert Flattening(delimiter, refused.append).flat(texts) == expected
    assert refused == [row for row, text in enumerate(texts) if text is not None and expected[row] is None]


def _text(value: Any, *, spaced: bool = False) -> bytes:
    return json.dumps(value, separators=None if spaced else (",", ":"), ensure_ascii=False).encode()


_NAMES = st.sampled_from(["a", "b", "c", "a.b", "é", 'q"', "tab\t", "\\", ""])
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(['":{', "\n", "a\nb", "{", '{"a":{'[:-1]]),
    st.lists(st.one_of(st.integers(), st.dictionaries(_NAMES, st.just({"a": {}}), max_size=2)), max_size=2),
)
_OBJECTS = st.recursive(
    st.dictionaries(_NAMES, _LEAVES, max_size=4),
    lambda below: st.dictionaries(_NAMES, st.one_of(_LEAVES, below), max_size=4),
    max_leaves=12,
)


def _other_leaves(value: Any, draw: st.DrawFn) -> Any:
    """The same members with leaves of their own, of which one now and then is an object."""
    if isinstance(value, dict):
        return {name: _other_leaves(member, draw) for name, member in value.items()}
    return draw(st.one_of(_LEAVES, _LEAVES, _LEAVES, st.just({"z": 1}))) if draw(st.booleans()) else value


@st.composite
def _batches(draw: st.DrawFn) -> list[bytes | None]:
    """Rows of some shapes, in runs: as they are, spaced, in another order, with a member more or less."""
    objects = draw(st.lists(_OBJECTS, min_size=1, max_size=3))
    found: list[bytes | None] = []
    for _ in range(draw(st.integers(1, 4))):
        value = draw(st.sampled_from(objects))
        found += [_text(value, spaced=draw(st.booleans()))] * draw(st.sampled_from([1, 40, 300]))
        changed = _other_leaves(value, draw)
        found += [_text(changed)] * draw(st.integers(0, 40))
        odd: list[bytes | None] = [
            None,
            b"[1]",
            b"7",
            _text(dict(reversed(changed.items()))),
            _text({**changed, "more": 1}),
            _text(dict(list(changed.items())[1:])),
            b'{"a":1,"b":{"c":2},"a":3}',
            b'{"\\u0061":1,"b":{ "c" : [1, 2] , "d":{}}}',
        ]
        found += draw(st.lists(st.sampled_from(odd), max_size=3))
    return found


@given(texts=_batches(), delimiter=st.sampled_from([".", "_", "", '"', "\n"]))
def test_rows_of_any_shapes_are_flattened_alike(texts: list[bytes | None], delimiter: str) -> None:
    """Whichever way they go, in their order."""
    _check(texts, delimiter)


@pytest.mark.parametrize(
    "odd",
    [
        {"who": {"name": "x"}, **_ORDER},
        {**_ORDER, "order": {"place": {"city": "Ulm", "note": None}, "id": 7}},
        {**_ORDER, "order": {"id": 7, "place": None}},
        {**_ORDER, "at": {"ms": 5}},
        {**_ORDER, "at": {}},
        {**_ORDER, "order": {"id": 7, "place": {"city": "Ulm", "note": None, "more": 1}}},
        {**_ORDER, "at": [{"a": {"b": '":{'}}]},
    ],
)
def test_a_row_of_another_shape_among_many_keeps_its_own(odd: dict[str, Any]) -> None:
    """At the chunk's begin, within, and alone at the end."""
    many: list[bytes | None] = [_text(_ORDER)] * 300
    few: list[bytes | None] = [_text(odd)] * 40
    _check([_text(odd), *many])
    _check([*many, _text(odd), *many])
    _check(few + many)
    _check(many + few)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"b":{"c":2},"a":3}',
        b'{"a":{"b":1},"a.b":2}',
        b'{"a.b":1,"a":{"b":[1,2]}}',
        b'{"a":{"b":[1,\n2]},"c":3}',
        b'{ "a" : { "b" : 1.00 } , "c" : [ 1 , {"d":{"e":1}} ] }',
        b'{"\\u0061":{"b":1E5}}',
        b'{"a":{},"b":{"c":{}}}',
        b"{}",
        *(b"{" + b'"a":{' * deep + b'"b":1' + b"}" * (deep + 1) for deep in (14, 15, 16, 60)),
    ],
)
def test_texts_are_copied_as_they_are_written(text: bytes) -> None:
    """Numbers, spaces within lists, names that are escaped, stand twice or become one, and depth."""
    _check([text] * 600)


def test_objects_in_objects_in_objects_have_no_shape() -> None:
    """Nor do they end the batch."""
    _check([b"{" + b'"a":{' * 900 + b'"b":1' + b"}" * 901] * 33)
