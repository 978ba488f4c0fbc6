import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats.compression import sniff
from headrace.formats.compression.magic import unsupported
from headrace.formats.json_batches import are_all_json, fault, trimmed
from headrace.formats.lines import line_block
from headrace.options.choices import InputFormat
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all
from tests.support.examples import examples

JSONL = decode_options(InputFormat.JSONL)

WHAT_JSON_IS = [
    (b"null", None),
    (b"true", None),
    (b"0", None),
    (b"-0", None),
    (b"1e999", None),
    (b"1" * 400, None),
    (b"1E+5", None),
    (b'{"a":1,"a":2}', None),
    (b'"\\ud83d\\ude00"', None),
    (b'"\\u0000"', None),
    (b'"a\x7f"', None),
    (b" [ 1 , 2 ]\t", None),
    (b"[" * 500 + b"]" * 500, None),
    (b"NaN", "not_json"),
    (b"Infinity", "not_json"),
    (b"-Infinity", "not_json"),
    (b"01", "not_json"),
    (b"1.", "not_json"),
    (b".5", "not_json"),
    (b"+1", "not_json"),
    (b"-", "not_json"),
    (b"1 2", "not_json"),
    (b"[1,]", "not_json"),
    (b"{'a':1}", "not_json"),
    (b"{a:1}", "not_json"),
    (b"[1", "not_json"),
    (b'"abc', "not_json"),
    (b"// c", "not_json"),
    (b"\x0c1", "not_json"),
    (b"1\x00", "not_json"),
    (b'"\t"', "not_json"),
    (b'"\x00"', "not_json"),
    (b'"\\x41"', "not_json"),
    (b'"\\u12"', "not_json"),
    (b'"\\ud800"', "not_json"),
    (b'"\\udc00"', "not_json"),
    (b'"\\ud800\\u0041"', "not_json"),
    (b'"\\ud800x"', "not_json"),
    (b"\xef\xbb\xbf1", "not_json"),
    (b'"\xff"', "not_utf8"),
    (b'"\xed\xa0\x80"', "not_utf8"),
    (b'"\xc0\x80"', "not_utf8"),
    (b"[" * 100_000 + b"]" * 100_000, "too_deep"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "too_deep"),
]


@pytest.mark.parametrize(("line", "reason"), WHAT_JSON_IS, ids=lambda value: repr(value)[:30])
def test_a_line_is_json_or_bad_for_a_reason(line: bytes, reason: str | None) -> None:
    """What passes is written down; the verdict is the same alone and between good lines."""
    found = fault(line)
    assert (None if found is None else found[0]) == reason

    decoded = decode_all(MemorySource(b"1\n" + line + b"\n2\n"), JSONL)
    assert [row.reason for row in decoded.bad] == ([] if reason is None else [reason])
    assert decoded.values == [b"1", *([None if line == b"null" else line] if reason is None else []), b"2"]


def test_what_passes_is_what_other_parsers_take() -> None:
    """No line reaches a topic that Python's own parser would refuse."""
    for line, reason in WHAT_JSON_IS:
        if reason is None:
            json.loads(line, parse_int=lambda digits: 0 if len(digits) > 100 else int(digits))


# Fragments that together make lines which are good, bad, blank, joined or torn.
pieces = st.sampled_from(
    rb'1|[|]|{|}|"|"a"|:|,|null|true|\u00e9|\ud800|1 2|[1,2]| '.split(b"|")
    + b"\n|\n|\r\n|\r|\t|\x00|\xff|\xc3\xa9|\xef\xbb\xbf".split(b"|")
)
# Lines of objects only, where it is the braces that tell; some go on in the next line, some hold two.
braced = st.lists(
    st.sampled_from(
        rb'{}|{"a":1}|{"a":{"b":2}}|{"a":[{}|{}]}|{} {}|{"a":"}|{"}|{"a":{}|{"a":[|,"b":{}}'.split(b"|")
    ),
    max_size=12,
).map(b"\n".join)
content = st.one_of(st.lists(pieces, max_size=40).map(b"".join), st.binary(max_size=60), braced)


@given(content.filter(lambda data: sniff(data) is None and unsupported(data, "") is None))
@settings(max_examples=examples(400))
def test_the_bulk_check_equals_the_check_of_each_line(data: bytes) -> None:
    """Where the buffer passes as a whole every line passes alone, and the rows are exactly the good lines."""
    if data:
        found = line_block(data, 0)
        starts, lengths = trimmed(found, found.starts, found.ends)
        lines = [data[s:e] for s, e in zip(found.starts, found.ends, strict=True)]
        filled = [line for line in lines if line.strip(b" \t\r\n")]
        assert [int(n) for n in lengths if n] == [len(line.strip(b" \t\r\n")) for line in filled]
        if are_all_json(data, starts[lengths > 0], lengths[lengths > 0]):
            assert [fault(line) for line in filled] == [None] * len(filled)

    body = data.removeprefix(b"\xef\xbb\xbf")
    *ended, last = body.split(b"\n")
    lines = [*(line.removesuffix(b"\r") for line in ended), last]
    expected = [line for line in lines if line.strip(b" \t\r\n")]
    decoded = decode_all(MemorySource(data), JSONL)
    assert decoded.values == [
        None if line.strip(b" \t\r\n") == b"null" else line for line in expected if fault(line) is None
    ]
    assert [row.raw for row in decoded.bad] == [line for line in expected if fault(line) is not None]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([b"1 2", b"[", b"]"], id="bare values"),
        pytest.param([b"{} {}", b"[{}", b"]"], id="not all in braces"),
        pytest.param([b"{} {}", b'{"a":1', b"}"], id="an object over two lines"),
        pytest.param([b"{} {}", b'{"a":[', b"{}]}"], id="all begin with a brace"),
        pytest.param([b"{} {}", b'{"a":{}', b',"b":{}}'], id="all end with one"),
    ],
)
def test_values_that_make_up_for_each_other_are_noticed(lines: list[bytes]) -> None:
    """As many values as lines is not enough: one line with two, one value over two lines."""
    data = b"\n".join(lines) + b"\n"
    assert len(msgspec.json.Decoder(msgspec.Raw).decode_lines(data)) == len(lines)
    found = line_block(data, 0)
    assert not are_all_json(data, found.starts, found.ends - found.starts)
