"""Objects as Aiven's sink writes them, of records of about 200 bytes, each with a key of its own."""

import base64
from typing import Final

_DAY_MS: Final = 86_400_000
_BASE_MS: Final = 1_767_225_600_000  # 2026-01-01
CSV_FIELDS: Final = "key,value,offset,timestamp"


def _value(number: int) -> bytes:
    head = b'{"id":"%012d","name":"abcdefghij","n":%d,"f":1.25,"payload":"' % (number, number)
    return head + b"x" * (197 - len(head)) + b'"}'


def aiven_jsonl(first: int, count: int) -> bytes:
    """Lines of the envelope of key, value, offset and timestamp; no line feed at the end."""
    rows = []
    for number in range(first, first + count):
        minutes, milliseconds = divmod(number % _DAY_MS, 60_000)
        moment = b"2026-01-01T%02d:%02d:%02d.%03dZ" % (
            minutes // 60 % 24,
            minutes % 60,
            milliseconds // 1000,
            milliseconds % 1000,
        )
        row = b'{"key":"key-%08d","offset":%d,"timestamp":"%s","value":%s}'
        rows.append(row % (number % 10_000, number, moment, _value(number)))
    return b"\n".join(rows)


def aiven_csv(first: int, count: int) -> bytes:
    """Lines of CSV_FIELDS, key and value as base64; no line feed at the end."""
    rows = []
    for number in range(first, first + count):
        key, value = base64.b64encode(b"key-%08d" % (number % 10_000)), base64.b64encode(_value(number))
        rows.append(b"%s,%s,%d,%d" % (key, value, number, _BASE_MS + number))
    return b"\n".join(rows)
