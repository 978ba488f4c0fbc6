"""How rows of CSV, text and JSON are separated, as the decoders get it, and the forms of these options."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from headrace.options.choices import CsvType, KnownLog, Packing
from headrace.options.value_types import Form, FormError


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvSettings:
    """`delimiter` is one byte, `quote` one or none. `columns` None: the header's names, or none at all.

    `has_nulls`: a field without anything, not even quotes, is null and not an empty text.
    """

    delimiter: bytes = b","
    quote: bytes = b'"'
    header: bool = True
    columns: tuple[str, ...] | None = None
    types: tuple[tuple[str, CsvType], ...] = ()
    has_nulls: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TextSettings:
    """Regular expressions that are searched in lines; None where a record is not bounded by one.

    `pattern` takes whole records apart: a known log's, or an own one (RE2's) with the types of its groups,
    and the text that is null in it. None: a record is a text. `is_exact`: a carriage return before a line
    feed, and a byte order mark, are parts of their line.
    """

    start: str | None = None
    end: str | None = None
    pattern: KnownLog | str | None = None
    types: tuple[tuple[str, CsvType], ...] = ()
    null: str | None = None
    is_exact: bool = False


PLAIN_CSV: Final = CsvSettings()
PLAIN_LINES: Final = TextSettings()


@dataclass(frozen=True, kw_only=True, slots=True)
class PackingSettings:
    """Which zip and tar archives are read by their members, which of these, and how large they may be."""

    kind: Packing
    members: tuple[str, ...]
    max_members: int
    max_bytes: int
    max_ratio: int


_ESCAPES: Final = {"\\t": "\t", "tab": "\t"}
_NEVER: Final = "\r\n\x00"


def _character(text: str) -> bytes:
    text = _ESCAPES.get(text, text)
    if len(text) != 1 or not text.isascii() or text in _NEVER:
        raise FormError
    return text.encode()


def _quote(text: str) -> bytes:
    return _character(text) if text else b""


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise FormError("a name is empty")
    if len(set(names)) < len(names):
        raise FormError("a name is there twice")
    return names


def _types(text: str) -> tuple[tuple[str, CsvType], ...]:
    pairs = [part.strip().rpartition(":") for part in text.split(",")]
    try:
        found = {name.strip(): CsvType(kind.strip().lower()) for name, _, kind in pairs if name.strip()}
    except ValueError:
        raise FormError from None
    if len(found) < len(pairs):
        raise FormError("a name is missing or there twice")
    return tuple(found.items())


_OF_CHARACTERS: Final = "(?u)"


def line_predicate(pattern: str) -> Callable[[bytes], object]:
    """What says of a line whether this regular expression is found in it; `re.error` for one that is none.

    It is searched in the line's bytes. One that begins with `(?u)` is searched in its characters, where what
    is not UTF-8 is U+FFFD.
    """
    if not pattern.startswith(_OF_CHARACTERS):
        return re.compile(pattern.encode()).search
    search = re.compile(pattern).search
    return lambda line: search(line.decode(errors="replace"))


def _pattern(text: str) -> str:
    try:
        is_found = line_predicate(text)
    except re.error as error:
        raise FormError(f"it is invalid: {error.msg}") from None
    # One of empty lines alone is fine: they end paragraphs.
    if is_found(b"") and is_found(b"any line"):
        raise FormError("it is found in an empty line, and so in every line")
    return text


def _line_pattern(text: str) -> KnownLog | str:
    if text in set(KnownLog):
        return KnownLog(text)
    # Loaded for who has a pattern of his own alone: reading a configuration needs no Arrow.
    arrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    try:
        kind = compute.extract_regex(arrow.array([], arrow.string()), rf"\A(?:{text})\z").type
    except arrow.ArrowInvalid as error:
        raise FormError(str(error).partition(": \\A")[0]) from None
    if not kind.num_fields:
        raise FormError("no group of it has a name, as in (?P<name>..)")
    return text


# `.name`, or a name in brackets and quotes, in which a backslash takes the next character as it is.
_STEPS: Final = re.compile(
    r"""\.(?P<plain>[^\s.,*\[\]'"@?()]+)"""
    r"""|\[(?P<quote>['"])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])+)(?P=quote)\]"""
)


def _json_path(text: str) -> tuple[str, ...]:
    if not text.startswith("$") or not text.endswith("[*]"):
        raise FormError
    inner, names, at = text[1:-3], [], 0
    while at < len(inner):
        step = _STEPS.match(inner, at)
        if step is None:
            raise FormError("between $ and [*] only names of objects may be, such as .a or ['b c']")
        names.append(step["plain"] or re.sub(r"\\(.)", r"\1", step["quoted"]))
        at = step.end()
    return tuple(names)


DELIMITER: Final = Form(kind="STRING", expected="one ASCII character, or \\t", parse=_character)
QUOTE: Final = Form(
    kind="STRING", expected="one ASCII character, or empty for none", parse=_quote, empty=True
)
COLUMNS: Final = Form(kind="LIST", expected="a comma-separated list of names", parse=_columns)
TYPES: Final = Form(
    kind="LIST",
    expected=f"a comma-separated list of name:type, with the types {', '.join(CsvType)}",
    parse=_types,
)
PATTERN: Final = Form(kind="STRING", expected="a regular expression (Python's)", parse=_pattern)
LINE_PATTERN: Final = Form(
    kind="STRING",
    expected=f"one of {', '.join(KnownLog)}, or a regular expression (RE2's) with named groups",
    parse=_line_pattern,
)
JSON_PATH: Final = Form(
    kind="STRING",
    expected="a path to one array such as $.Records[*] or $.detail['log events'][*]",
    parse=_json_path,
)
