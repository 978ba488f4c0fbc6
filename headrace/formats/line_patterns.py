"""Lines of text as JSON objects: by the known logs of AWS, or by an own regular expression.

Patterns are RE2's, whose time grows with the line and never with the pattern's choices. What can go wrong: a
line that the pattern does not match, a value that is not of its type, bytes that are not UTF-8 (bad records,
each with its line); a header that names no fields, or one twice (the object). Blank lines and headers are no
rows. Names come from the header where a log has one; a resume and a split read it again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.csv_fields import CsvFields, Fault, FieldWriter
from headrace.formats.lines import LineBlock
from headrace.model.columns import Numbers
from headrace.model.errors import InvalidObject
from headrace.options.choices import CsvType, KnownLog
from headrace.options.row_settings import CsvSettings, TextSettings

# Names of a log's fields, in their order: [..] stands in brackets, "..." in quotes, and a letter is a type.
_LONG, _DOUBLE = CsvType.LONG, CsvType.DOUBLE
_S3_ACCESS: Final = (
    "bucket_owner bucket [time] remote_ip requester request_id operation key "
    '"request_uri" http_status:l error_code bytes_sent:l object_size:l total_time:l turn_around_time:l '
    '"referer" "user_agent" version_id ? host_id signature_version cipher_suite authentication_type '
    "host_header tls_version access_point_arn acl_required source_region"
)
_ALB: Final = (
    "type time elb client target request_processing_time:d target_processing_time:d "
    "response_processing_time:d elb_status_code:l target_status_code:l received_bytes:l sent_bytes:l "
    '"request" "user_agent" ssl_cipher ssl_protocol ? target_group_arn "trace_id" "domain_name" '
    '"chosen_cert_arn" matched_rule_priority:l request_creation_time "actions_executed" "redirect_url" '
    '"error_reason" "target_list" "target_status_code_list" "classification" "classification_reason" '
    "conn_trace_id"
)
_NLB: Final = (
    "type version time elb listener client destination connection_time:l tls_handshake_time:l "
    "received_bytes:l sent_bytes:l incoming_tls_alert:l chosen_cert_arn chosen_cert_serial tls_cipher "
    "tls_protocol_version tls_named_group domain_name ? alpn_fe_protocol alpn_be_protocol "
    "alpn_client_preference_list tls_connection_creation_time"
)
# Of logs with headers: the fields where an object has none, and the types of all that AWS names.
_CLOUDFRONT: Final = (
    "date time x_edge_location sc_bytes:l c_ip cs_method cs_host cs_uri_stem sc_status:l cs_referer "
    "cs_user_agent cs_uri_query cs_cookie x_edge_result_type x_edge_request_id x_host_header cs_protocol "
    "cs_bytes:l time_taken:d x_forwarded_for ssl_protocol ssl_cipher x_edge_response_result_type "
    "cs_protocol_version fle_status fle_encrypted_fields c_port:l time_to_first_byte:d "
    "x_edge_detailed_result_type sc_content_type sc_content_len:l sc_range_start:l sc_range_end:l"
)
_VPC_FLOW: Final = (
    "version:l account_id interface_id srcaddr dstaddr srcport:l dstport:l protocol:l packets:l bytes:l "
    "start:l end:l action log_status"
)
# A first line with one of these among words alone is a header.
_FLOW_NAMES: Final = frozenset(
    b"account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action "
    b"log-status vpc-id subnet-id instance-id tcp-flags pkt-srcaddr pkt-dstaddr az-id flow-direction tgw-id "
    b"tgw-attachment-id resource-type".split()
)
_MORE_LONGS: Final = ("tcp_flags", "traffic_path", "packets_lost_no_route", "packets_lost_blackhole")
# CloudFront writes blanks and quotes of these as %20 and %22. Paths and queries stay as they were asked for.
_ENCODED: Final = frozenset({"cs_user_agent", "cs_referer", "cs_cookie"})
_REST: Final = "more"
_HEAD_BYTES: Final = 65_536
_HEADER_LINES: Final = 2
_NAME: Final = re.compile(rb"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePattern:
    """A pattern for whole lines, whose groups are `names`; the text that is null; lines that are no rows.

    `quoted` are in quotes, and those of `encoded` have signs written as %XX. `comment`: lines that begin so
    are no rows. `header`: the object's first line is none.
    """

    regex: str
    names: tuple[str, ...]
    types: tuple[tuple[str, CsvType], ...] = ()
    null: str | None = None
    is_known: bool = False
    quoted: frozenset[str] = frozenset()
    encoded: frozenset[str] = frozenset()
    comment: bytes = b""
    header: bool = False


class LineReader:
    """Reads the fields of lines and writes them as JSON; make one for each object."""

    def __init__(self, pattern: LinePattern) -> None:
        self._pattern = pattern
        settings = CsvSettings(types=pattern.types)
        self._writer = FieldWriter(pattern.names, settings, len(pattern.names))

    def rows(self, block: LineBlock, count: int) -> Numbers:
        """The block's first `count` lines without blank ones and headers."""
        starts, ends, buffer = block.starts[:count], block.ends[:count], block.buffer
        is_row = ends > starts
        if self._pattern.comment:
            octets = np.frombuffer(buffer, np.uint8)
            is_row &= octets[np.minimum(starts, len(buffer) - 1)] != self._pattern.comment[0]
        if self._pattern.header:
            is_row &= starts + block.offset > _BOM_BYTES
        return np.flatnonzero(is_row)

    def read(self, block: LineBlock, rows: Numbers) -> tuple[Any, Numbers, dict[int, Fault]]:
        """The JSON of each good one of these lines, which ones they are, and what is wrong with others."""
        faults: dict[int, Fault] = {}
        texts = self._texts(block, rows, faults)
        rows = np.array([row for row in rows.tolist() if row not in faults], np.int64)
        found = pc.extract_regex(texts, self._pattern.regex)
        matched = np.asarray(found.is_valid())
        for row in rows[~matched].tolist():
            faults[row] = ("no_match", "the line is not as text.pattern says")
        rows = rows[matched]
        found = found.filter(pa.array(matched))
        columns = [self._column(found, name) for name in self._pattern.names]
        written, fields = self._writer.write(CsvFields(columns=columns, rows=rows, faults=faults))
        return written, fields.rows, fields.faults

    def _texts(self, block: LineBlock, rows: Numbers, faults: dict[int, Fault]) -> Any:
        spans = zip(block.starts[rows].tolist(), block.ends[rows].tolist(), strict=True)
        lines = [block.buffer[start:end] for start, end in spans]
        try:
            return pa.array(lines, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            texts = []
        for row, line in zip(rows.tolist(), lines, strict=True):
            try:
                texts.append(line.decode())
            except UnicodeDecodeError as error:
                faults[row] = ("not_utf8", f"the line is not UTF-8: {error.reason} at byte {error.start}")
        return pa.array(texts, pa.string())

    def _column(self, found: Any, name: str) -> Any:
        column = found.field(self._pattern.names.index(name))
        if self._pattern.is_known:
            is_absent = pc.equal(column, "")
            if name in self._pattern.quoted:
                column = pc.replace_substring_regex(column, r'(?s)\A"(.*)"\z', r"\1")
            column = pc.if_else(is_absent, pa.scalar(None, pa.string()), column)
        if self._pattern.null is not None:
            column = pc.if_else(pc.equal(column, self._pattern.null), pa.scalar(None, pa.string()), column)
        if name in self._pattern.encoded:
            texts = [None if each is None else _unquoted(each) for each in column.to_pylist()]
            column = pa.array(texts, pa.string())
        return column


def _unquoted(text: str) -> str:
    """The text with its %XX decoded; where they are not UTF-8 (a client's Latin-1), with its blanks alone."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text.replace("%20", " ")


_BOM_BYTES: Final = 3


def line_reader(
    settings: TextSettings, head: Iterator[bytes], name: str
) -> tuple[LineReader, Iterator[bytes]]:
    """The reader of the lines of the object called `name`, and the chunks of `head`, its beginning.

    No more of them are drawn than the header takes. InvalidObject (`invalid_header`) for a header that names
    no fields.
    """
    if not isinstance(settings.pattern, KnownLog):
        assert settings.pattern is not None, "asked for where there is a pattern"
        return LineReader(_own(settings, settings.pattern)), head
    if settings.pattern not in _WITH_HEADERS:
        return LineReader(_FIXED[settings.pattern]), head
    taken: list[bytes] = []
    for chunk in head:
        taken.append(chunk)
        if len(taken) == 1 and len(chunk) < _HEAD_BYTES:
            continue
        joined = b"".join(taken)
        taken = [joined]
        if joined.count(b"\n") >= _HEADER_LINES or len(joined) >= _HEAD_BYTES:
            break
    text = b"".join(taken).removeprefix(b"\xef\xbb\xbf")
    return LineReader(_by_header(settings.pattern, text, name)), chain(taken, head)


def has_header(settings: TextSettings) -> bool:
    """Whether the object's beginning has to be read, wherever reading begins."""
    return settings.pattern in _WITH_HEADERS


def _own(settings: TextSettings, pattern: str) -> LinePattern:
    regex = rf"\A(?:{pattern})\z"
    kind = pc.extract_regex(pa.array([], pa.string()), regex).type
    names = tuple(kind.field(index).name for index in range(kind.num_fields))
    return LinePattern(regex=regex, names=names, types=settings.types, null=settings.null)


def _known(fields: str, separator: str = " ") -> LinePattern:
    """The pattern of a log whose fields are these; those after ? may be missing, and others may follow."""
    entries = fields.split()
    first_optional = entries.index("?") if "?" in entries else len(entries)
    entries = [entry for entry in entries if entry != "?"]
    names = tuple(_name(entry) for entry in entries)
    ends = rf"(?:{separator}(?P<{_REST}>.*))?"
    for index in range(len(entries) - 1, -1, -1):
        field = ("" if not index else separator) + _field(entries[index], separator)
        ends = field + ends if index < first_optional else f"(?:{field}{ends})?"
    return LinePattern(
        regex=rf"\A{ends}\z",
        names=(*names, _REST),
        types=_types(entries),
        null="-",
        is_known=True,
        quoted=frozenset(_name(entry) for entry in entries if entry.startswith('"')),
    )


def _name(entry: str) -> str:
    return entry.partition(":")[0].strip('[]"')


def _types(entries: list[str]) -> tuple[tuple[str, CsvType], ...]:
    kinds = {"l": _LONG, "d": _DOUBLE}
    return tuple((_name(entry), kinds[entry.partition(":")[2]]) for entry in entries if ":" in entry)


def _field(entry: str, separator: str) -> str:
    name = _name(entry)
    if entry.startswith("["):
        return rf"\[(?P<{name}>[^\]]*)\]"
    # A user agent may hold quotes: what follows the field decides which is its last one.
    return f'(?P<{name}>".*?"|-)' if entry.startswith('"') else f"(?P<{name}>[^{separator}]+)"


_FIXED: Final = {
    KnownLog.S3_ACCESS: _known(_S3_ACCESS),
    KnownLog.ALB: _known(_ALB),
    KnownLog.NLB: _known(_NLB),
}
_WITH_HEADERS: Final = {KnownLog.CLOUDFRONT: (_CLOUDFRONT, "\t"), KnownLog.VPC_FLOW: (_VPC_FLOW, " ")}
_TYPES: Final = {
    log: dict(_types(fields.split())) | dict.fromkeys(_MORE_LONGS, _LONG)
    for log, (fields, _) in _WITH_HEADERS.items()
}


def _by_header(log: KnownLog, head: bytes, name: str) -> LinePattern:
    """The pattern of the fields that the header names, or of AWS's default ones where there is none."""
    fields, separator = _WITH_HEADERS[log]
    names = [_name(entry) for entry in fields.split()]
    comment = b"#" if log is KnownLog.CLOUDFRONT else b""
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")]
    named = None
    if comment:
        named = next((line[8:].split() for line in lines if line.startswith(b"#Fields:")), None)
    elif not _FLOW_NAMES.isdisjoint(lines[0].split()) and all(map(_NAME.fullmatch, lines[0].split())):
        named = lines[0].split()
    if named is not None:
        names = [re.sub(r"[^a-z0-9]+", "_", each.decode("latin-1").lower()).strip("_") for each in named]
        if not names or not all(names) or len(set(names)) < len(names):
            raise InvalidObject(
                f"{name}: the header of the {log} log names no fields, or one twice. Correct text.pattern, "
                "or leave the object out.",
                reason="invalid_header",
            )
    groups = separator.join(f"(?P<f{index}>[^{separator}]+)" for index in range(len(names)))
    types = tuple((each, _TYPES[log][each]) for each in names if each in _TYPES[log])
    return LinePattern(
        regex=rf"\A{groups}\z",
        names=tuple(names),
        types=types,
        null="-",
        is_known=True,
        encoded=_ENCODED if comment else frozenset(),
        comment=comment,
        header=named is not None and not comment,
    )
