"""Captured text turned into topic, partition, start offset and time, and back."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from headrace.names.template_source import Placeholder, Unit

MAX_PARTITION: Final = 2**31 - 1  # Kafka's protocol: a partition is an INT32
MAX_OFFSET: Final = 2**63 - 1  # and an offset an INT64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
T = TypeVar("T")
_UNITS: Final[tuple[Unit, ...]] = ("yyyy", "MM", "dd", "HH")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFields:
    """What a key says. A field is None when the template has no such placeholder or its value is unusable.

    `timestamp_ms` is milliseconds since 1970 in UTC; `warnings` are sentences about values treated as absent.
    """

    topic: str | None = None
    partition: int | None = None
    start_offset: int | None = None
    timestamp_ms: int | None = None
    warnings: tuple[str, ...] = ()


def read_fields(captures: Iterable[tuple[Placeholder, str | None]]) -> KeyFields:
    """Fields of one key from the text that each placeholder took (None: a part of the template not taken)."""
    topic: str | None = None
    partition: int | None = None
    start_offset: int | None = None
    stamps: list[tuple[Unit | None, str]] = []
    warnings: list[str] = []
    for placeholder, text in captures:
        if text is None:
            continue
        match placeholder.name:
            case "topic":
                topic = text
            case "partition":
                partition = _read_number("partition", text, MAX_PARTITION, warnings)
            case "start_offset":
                start_offset = _read_number("start offset", text, MAX_OFFSET, warnings)
            case "timestamp":
                stamps.append((placeholder.unit, text))
            case "any":
                pass
    return KeyFields(
        topic=topic,
        partition=partition,
        start_offset=start_offset,
        timestamp_ms=_read_timestamp(stamps, warnings) if stamps else None,
        warnings=tuple(warnings),
    )


def _read_number(what: str, text: str, limit: int, warnings: list[str]) -> int | None:
    digits = text.lstrip("0") or "0"
    # By length first: int() refuses thousands of digits, and a hostile key should not cost its conversion.
    if len(digits) <= len(str(limit)) and (value := int(digits)) <= limit:
        return value
    warnings.append(f"the {what} {_shorten(digits)} is above {limit} and is treated as absent")
    return None


def _read_timestamp(stamps: list[tuple[Unit | None, str]], warnings: list[str]) -> int | None:
    """Milliseconds from the first whole time (no unit) that can be read, else from the units together."""
    whole = [text for unit, text in stamps if unit is None]
    for text in whole:
        if (read := _read_whole_time(text, warnings)) is not None:
            return read
    return _combine_units([(unit, text) for unit, text in stamps if unit is not None], warnings)


def _read_whole_time(text: str, warnings: list[str]) -> int | None:
    match len(text):
        case 13:
            return int(text)
        case 10:
            return int(text) * 1000
        case 8:
            return _read_date([int(text[:4]), int(text[4:6]), int(text[6:])], warnings)
        case _:
            return None


def _combine_units(stamps: list[tuple[Unit, str]], warnings: list[str]) -> int | None:
    values: dict[Unit, int] = {}
    for unit, text in stamps:
        if values.setdefault(unit, int(text)) != int(text):
            warnings.append(f"the timestamp has two values for {unit}, so it is treated as absent")
            return None
    # yyyy, yyyy MM, yyyy MM dd or all four: a day without its month says nothing.
    given = [values[unit] for unit in _UNITS[: len(values)] if unit in values]
    return _read_date(given, warnings) if given and len(given) == len(values) else None


def _read_date(parts: list[int], warnings: list[str]) -> int | None:
    year, month, day, hour = (*parts, *(1, 1, 1, 0)[len(parts) :])
    try:
        milliseconds = (datetime(year, month, day, hour, tzinfo=UTC) - _EPOCH) // _MILLISECOND
    except ValueError:
        milliseconds = -1
    if milliseconds >= 0:
        return milliseconds
    shown = "-".join(f"{part:02d}" for part in parts)
    # Kafka keeps no time before 1970.
    warnings.append(f"the timestamp {shown} is no date from 1970 on and is treated as absent")
    return None


def write_field(placeholder: Placeholder, fields: KeyFields) -> str:
    """The text of a placeholder in a key with these fields; ValueError when there is none."""
    match placeholder.name:
        case "any":
            return ""
        case "topic":
            return str(_need("topic", fields.topic))
        case "partition":
            # The sinks pad to the digits of the largest value: 10 and 20.
            return f"{_need('partition', fields.partition):0{10 if placeholder.padded else 1}d}"
        case "start_offset":
            return f"{_need('start_offset', fields.start_offset):0{20 if placeholder.padded else 1}d}"
        case "timestamp":
            return _write_timestamp(placeholder.unit, _need("timestamp_ms", fields.timestamp_ms))


def _need(name: str, value: T | None) -> T:
    if value is None:
        raise ValueError(f"The template needs {name}, which these fields lack.")
    return value


def _write_timestamp(unit: Unit | None, milliseconds: int) -> str:
    if unit is None:
        return f"{milliseconds:013d}"
    try:
        moment = _EPOCH + milliseconds * _MILLISECOND
    except OverflowError:
        raise ValueError(f"The time {milliseconds} ms is beyond the year 9999.") from None
    part = {"yyyy": moment.year, "MM": moment.month, "dd": moment.day, "HH": moment.hour}[unit]
    return f"{part:0{4 if unit == 'yyyy' else 2}d}"


def show_time(milliseconds: int) -> str:
    """ISO 8601 text in UTC, with milliseconds only when there are any."""
    moment = _EPOCH + milliseconds * _MILLISECOND
    precision = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _shorten(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
