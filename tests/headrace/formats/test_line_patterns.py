"""Lines taken apart by patterns: the logs of AWS, own regular expressions, and what does not match."""

import gzip
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats import DecodeOptions
from headrace.model.errors import InvalidObject
from headrace.model.positions import BytePosition
from headrace.options.choices import CsvType, FieldSource, InputFormat, KnownLog, ValueFormat
from headrace.options.row_settings import TextSettings
from tests.headrace.formats.decode_options import decode_options
from tests.headrace.formats.memory_source import MemorySource, decode_all

every_chunk = pytest.mark.parametrize("chunk", [1, 50, 1 << 20])

_S3 = (
    "79a5 amzn-s3-demo-bucket1 [06/Feb/2019:00:00:38 +0000] 192.0.2.3 79a5 3E57427F3EXAMPLE REST.GET.OBJECT "
    'photos/a%2520b.jpg "GET /bucket/photos/a%20b.jpg?x=1 HTTP/1.1" 200 - 113 4096 7 - '
    '"-" "S3 "Console"/0.4" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234= '
    "SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader bucket.s3.us-west-1.amazonaws.com TLSV1.2 - Yes"
)
_ALB = (
    "https 2018-07-02T22:23:00.186641Z app/my-lb/50dc 192.168.131.39:2817 10.0.0.1:80 0.086 -1 0.037 "
    '200 - 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128 TLSv1.2 '
    'arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6 "Root=1-58337281" '
    '"www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/1" 1 2018-07-02T22:22:48.364000Z '
    '"authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1234 new "field"'
)
_NLB = (
    "tls 2.0 2018-12-20T02:59:40 net/my-lb/c6e7 g3d4b5e8bb8464cd 72.21.218.154:51341 172.100.100.185:443 "
    "5 2 98 246 - arn:aws:acm:us-east-2:671290407336:certificate/2a10 - ECDHE-RSA-AES128-SHA tlsv12 - "
    'my-lb.elb.us-east-2.amazonaws.com h2 h2 "h2","http/1.1" 2020-04-01T08:51:20'
)
_VPC = (
    "2 123456789010 eni-1235b8ca 172.31.16.139 10.0.0.21 20641 22 6 20 4249 1418530010 1418530070 ACCEPT OK"
)
_FIELDS = "#Version: 1.0\n#Fields: date time cs-method cs(User-Agent) sc-status time-taken x-new\n"
_CLOUDFRONT = "2019-12-04\t21:02:31\tGET\tMozilla/5.0%20(%22x%22)\t200\t0.001\t-"


def _by(pattern: KnownLog | str, **changes: Any) -> DecodeOptions:
    text = {name: changes.pop(name) for name in ("types", "null") if name in changes}
    return decode_options(InputFormat.TEXT, text=TextSettings(pattern=pattern, **text), **changes)


def _objects(content: str | bytes, options: DecodeOptions, chunk: int = 1 << 20) -> list[Any]:
    content = content if isinstance(content, bytes) else content.encode()
    decoded = decode_all(MemorySource(content, chunk=chunk), options)
    assert (decoded.bad, decoded.error) == ([], None)
    return [json.loads(value or b"null") for value in decoded.values]


@pytest.mark.parametrize(
    ("log", "line", "some"),
    [
        (
            KnownLog.S3_ACCESS,
            _S3,
            {
                "time": "06/Feb/2019:00:00:38 +0000",
                "key": "photos/a%2520b.jpg",
                "request_uri": "GET /bucket/photos/a%20b.jpg?x=1 HTTP/1.1",
                "http_status": 200,
                "error_code": None,
                "bytes_sent": 113,
                "turn_around_time": None,
                "referer": None,
                "user_agent": 'S3 "Console"/0.4',
                "acl_required": "Yes",
                "source_region": None,
                "more": None,
            },
        ),
        (
            KnownLog.ALB,
            _ALB,
            {
                "client": "192.168.131.39:2817",
                "request_processing_time": 0.086,
                "target_processing_time": -1,
                "target_status_code": None,
                "request": "GET https://www.example.com:443/ HTTP/1.1",
                "redirect_url": None,
                "matched_rule_priority": 1,
                "conn_trace_id": "TID_1234",
                "more": 'new "field"',
            },
        ),
        (
            KnownLog.NLB,
            _NLB,
            {
                "incoming_tls_alert": None,
                "connection_time": 5,
                "alpn_client_preference_list": '"h2","http/1.1"',
            },
        ),
        (KnownLog.VPC_FLOW, _VPC, {"version": 2, "srcport": 20641, "end": 1418530070, "log_status": "OK"}),
    ],
)
def test_logs_of_aws_are_known(log: KnownLog, line: str, some: dict[str, Any]) -> None:
    """Their fields by name and type; `-` is null, and what AWS adds behind them is `more`."""
    first, second = _objects(f"{line}\n\n{line}\r\n", _by(log))

    assert first == second
    assert {name: first[name] for name in some} == some


def test_older_logs_have_fewer_fields() -> None:
    """Those that were added since are null."""
    (found,) = _objects(" ".join(_S3.split(" ")[:-7]), _by(KnownLog.S3_ACCESS))

    assert found["version_id"] is None
    assert found["host_id"].startswith("s9lz")
    assert (found["signature_version"], found["tls_version"]) == (None, None)


@every_chunk
def test_cloudfront_says_its_fields(chunk: int) -> None:
    """In its header, by which names come; headers are no rows, and %20 is a blank of the user agent."""
    found = _objects(f"{_FIELDS}{_CLOUDFRONT}\n", _by(KnownLog.CLOUDFRONT), chunk)

    assert found == [
        {
            "date": "2019-12-04",
            "time": "21:02:31",
            "cs_method": "GET",
            "cs_user_agent": 'Mozilla/5.0 ("x")',
            "sc_status": 200,
            "time_taken": 0.001,
            "x_new": None,
        }
    ]


def test_cloudfront_keeps_what_is_not_utf_8() -> None:
    """Of clients that sent Latin-1: a replaced sign would be another value."""
    header = "#Fields: date cs(User-Agent) cs(Referer)\n"
    lines = "2026-01-01\tcaf%E9%20x%22\tcaf%C3%A9%20x\n2026-01-01\t%20\t%\n"

    found = _objects(header + lines, _by(KnownLog.CLOUDFRONT))

    assert [(row["cs_user_agent"], row["cs_referer"]) for row in found] == [
        ("caf%E9 x%22", "café x"),
        (" ", "%"),
    ]


@every_chunk
def test_flow_logs_say_their_fields(chunk: int) -> None:
    """In the first line, in any order, if there is such a line."""
    content = "\ufeffinterface-id tcp-flags pkt-srcaddr\neni-1 19 10.0.0.1\neni-2 - 10.0.0.2\n"

    assert _objects(content, _by(KnownLog.VPC_FLOW), chunk) == [
        {"interface_id": "eni-1", "tcp_flags": 19, "pkt_srcaddr": "10.0.0.1"},
        {"interface_id": "eni-2", "tcp_flags": None, "pkt_srcaddr": "10.0.0.2"},
    ]
    assert _objects("", _by(KnownLog.VPC_FLOW), chunk) == []


@pytest.mark.parametrize("header", ["#Fields:\n", "#Fields: date date\n", "#Fields: date ()\n"])
def test_a_header_that_names_no_fields_is_refused(header: str) -> None:
    """Before any row."""
    with pytest.raises(InvalidObject, match="header of the cloudfront log") as caught:
        decode_all(MemorySource(header.encode()), _by(KnownLog.CLOUDFRONT))

    assert caught.value.reason == "invalid_header"


NGINX = _by(
    r'(?P<ip>\S+) \[(?P<at>[^\]]+)\] "(?P<what>.*)" (?P<status>\d+|-)(?: (?P<size>\S+))?',
    types=(("status", CsvType.LONG), ("size", CsvType.LONG)),
    null="-",
)


def test_an_own_pattern_makes_objects_of_its_groups() -> None:
    """A group that takes no part is empty; typed it is null."""
    found = _objects('1.2.3.4 [x] "GET "é"" 200 17\n1.2.3.4 [-] "" -\n', NGINX)

    assert found == [
        {"ip": "1.2.3.4", "at": "x", "what": 'GET "é"', "status": 200, "size": 17},
        {"ip": "1.2.3.4", "at": None, "what": "", "status": None, "size": None},
    ]


@every_chunk
def test_what_does_not_match_is_a_bad_row(chunk: int) -> None:
    """Each as it stands, and the lines around it stay."""
    good = b'1.2.3.4 [x] "" 200 17'
    lines = [
        good,
        b"other",
        good,
        b'1.2.3.4 [x] "" 200 17x',
        b"\xff" + good,
        good + b" " * 50,
        good,
        good + b" 3",
    ]
    options = decode_options(InputFormat.TEXT, text=NGINX.format.text, record_max_bytes=70)
    decoded = decode_all(MemorySource(b"\n".join(lines), chunk=chunk), options)

    assert len(decoded.rows) == 3
    assert [(bad.reason, bad.raw) for bad in decoded.bad] == [
        ("no_match", lines[1]),
        ("wrong_type", lines[3]),
        ("not_utf8", lines[4]),
        ("too_large", None),
        ("no_match", lines[7]),
    ]
    assert decoded.error is None


def test_raw_values_are_the_lines() -> None:
    """With keys of their fields."""
    options = _by(KnownLog.VPC_FLOW, value_format=ValueFormat.RAW, key_source=FieldSource(("action",)))
    decoded = decode_all(MemorySource(_VPC.encode()), options)

    assert decoded.values == [_VPC.encode()]
    keys = decoded.batches[0].keys
    assert keys is not None
    assert keys.get(0) == b"ACCEPT"


lines = st.lists(st.sampled_from(["eni-1 1 a", "eni-2 - b", "", "bad", "eni-3 x c"]), max_size=12)


@given(
    found=lines,
    has_header=st.booleans(),
    marks=st.lists(st.integers(4, 120), max_size=3),
    chunk=st.sampled_from([1, 9, 1 << 20]),
    is_packed=st.booleans(),
)
def test_rows_are_the_same_from_anywhere(
    found: list[str], marks: list[int], chunk: int, *, has_header: bool, is_packed: bool
) -> None:
    """From each position on, and in splits: the header is read wherever reading begins."""
    header = "interface-id tcp-flags action\n" if has_header else ""
    content = (header + "\n".join(found)).encode()
    stored = gzip.compress(content) if is_packed else content
    options = _by(KnownLog.VPC_FLOW)
    whole = decode_all(MemorySource(stored, chunk=chunk), options)

    assert len(whole.rows) == (sum(line in ("eni-1 1 a", "eni-2 - b") for line in found) if has_header else 0)
    good = dict(whole.rows)
    for index, position in enumerate(whole.order):
        rest = decode_all(MemorySource(stored, chunk=chunk), options, start=position)
        assert rest.order == whole.order[index:]
        assert rest.rows == [(each, good[each]) for each in rest.order if each in good]
    if not is_packed:
        ends = sorted({0, len(content), *(mark for mark in marks if mark < len(content))})
        parts = [
            decode_all(MemorySource(content, chunk=chunk), options, begin=begin, end=end)
            for begin, end in pairwise(ends)
        ]
        assert [row for part in parts for row in part.rows] == whole.rows


def test_time_grows_with_the_line_alone() -> None:
    """A pattern that backtracking would never come to an end with."""
    options = _by(r"(?P<a>(?:(?:x+)+)+)y(?P<b>.*.*.*)z")
    decoded = decode_all(MemorySource(b"x" * 200_000 + b"\n" + b"y" * 200_000), options)

    assert [bad.reason for bad in decoded.bad] == ["no_match", "no_match"]
    assert decoded.after == BytePosition(400_001)
