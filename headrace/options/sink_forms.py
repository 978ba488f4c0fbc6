"""The forms of a sink's options."""

import base64
import binascii
import re
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.names.date_fields import read_zone
from headrace.names.name_template import read_path
from headrace.options.choices import Compression
from headrace.options.schema_settings import DecimalFormat
from headrace.options.secret import Secret
from headrace.options.sink_settings import Encryption, NameTimeSource, OutputFormat, SideRole
from headrace.options.transforms.java_regex import JavaRegexError, for_this_python, java_regex
from headrace.options.value_types import TOPIC, Form, FormError, check_tag, listed, matching

_SEPARATORS: Final = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\\\": "\\"}
_ESCAPE: Final = re.compile(r"\\x([0-9A-Fa-f]{2})|\\.|\\$")
_TAG: Final = re.compile(r"[\w .:/=+@-]{1,128}=[\w .:/=+@-]{0,256}")
_LOCALE: Final = re.compile(r"([A-Za-z]{2,3})(?:[-_]([A-Za-z]{2}|\d{3}))?")
_TAGS_MAX: Final = 10
_OFFSET_TAGS: Final = 3
_KEY_BYTES: Final = 32


def words(*names: str, also: str = "") -> Form[str | None]:
    """Return the form of one of these words, in any case; `also` is a word for None."""
    spelled = {name.lower(): name for name in names}

    def parse(text: str) -> str | None:
        found = text.strip().lower()
        if also and found == also:
            return None
        if found not in spelled:
            raise FormError
        return spelled[found]

    known = (*names, *([also] if also else ()))
    return Form(kind="STRING", expected=f"one of {', '.join(known)}", parse=parse, values=known)


def _topics(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(TOPIC.parse(item) for item in text.split(",") if item.strip()))
    if not found:
        raise FormError
    return found


TOPICS: Final = Form(kind="LIST", expected="a comma-separated list of topic names", parse=_topics)


# Java, whose expressions come with other vendors' configurations, takes flags after the beginning, and reads
# && within a class as what both classes have, and [ as a class in it, where Python has these signs.
_LATE_FLAGS: Final = re.compile(r"\A(\^+)(\(\?[aims]+\))")
_OPENING: Final = re.compile(r"(?<!\\)\[")
_IN_A_CLASS: Final = r"\[\^?+\]?+(?>(?:\\.|[^\\\]\[])*)"
_NESTED: Final = re.compile(rf"(?>(?:\\.|[^\\\[]|{_IN_A_CLASS}\])*){_IN_A_CLASS}\[", re.DOTALL)


def topic_pattern(text: str) -> str:
    """The expression of topics' names for Python's `re`; FormError with what is wrong.

    What only Java's expressions have, such as named groups of its kind, is written as Python has it.
    """
    pattern = _LATE_FLAGS.sub(r"\2\1", text.strip())
    if not pattern:
        raise FormError
    try:
        found = _pythons(pattern)
    except FormError:
        try:
            found = java_regex(pattern)
        except JavaRegexError:
            found = ""
        if not found:
            raise
    return for_this_python(found)


def _pythons(pattern: str) -> str:
    if any(_has_intersection(each) for each in pattern.split("]")):
        raise FormError("it has && within [..], which Python does not know; write a lookahead: (?=[..])[..]")
    if _NESTED.match(pattern) is not None:
        raise FormError(
            "it has a [ within [..], which is a class within a class for Java and a sign for Python; write "
            "one class, such as [a-z0-9], and \\[ for the sign"
        )
    try:
        re.compile(pattern, re.ASCII)
    except re.error as error:
        raise FormError(f"it is invalid: {error.msg}") from None
    except RecursionError:
        raise FormError("it has too many groups in each other") from None
    return pattern


def _has_intersection(text: str) -> bool:
    """Whether what ends with a class has a && in it."""
    opening = _OPENING.search(text)
    return opening is not None and "&&" in text[opening.end() :]


TOPIC_PATTERN: Final = Form(
    kind="STRING",
    expected="a regular expression that the whole name of a topic matches",
    parse=topic_pattern,
)


def _layout(text: str) -> LayoutName:
    try:
        found = LayoutName(text.strip().lower())
    except ValueError:
        raise FormError from None
    if found not in _WRITTEN:
        raise FormError("this sink's layout is not written yet")
    return found


_WRITTEN: Final = tuple(LayoutName)
OUTPUT_LAYOUT: Final = Form(
    kind="STRING", expected=f"one of {', '.join(_WRITTEN)}", parse=_layout, values=_WRITTEN
)

_AVRO_CODECS: Final = {
    "null": Compression.NONE,
    "deflate": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "bzip2": Compression.BZIP2,
    "xz": Compression.XZ,
    "zstandard": Compression.ZSTD,
}


def _avro_codec(text: str) -> Compression:
    found = _AVRO_CODECS.get(text.strip().lower())
    if found is None:
        raise FormError
    return found


AVRO_CODEC: Final = Form(
    kind="STRING",
    expected=f"one of {', '.join(_AVRO_CODECS)}",
    parse=_avro_codec,
    values=tuple(_AVRO_CODECS),
)


def _sidecars(text: str) -> tuple[SideRole, ...]:
    items = [item.strip().lower() for item in text.split(",")]
    if items == ["none"]:
        return ()
    try:
        return tuple(dict.fromkeys(map(SideRole, items)))
    except ValueError:
        raise FormError from None


SIDECARS: Final = Form(
    kind="LIST",
    expected="none, or a comma-separated list of keys and headers",
    parse=_sidecars,
    values=("none", *SideRole),
)
_SIDE_FORMATS: Final = (OutputFormat.AVRO, OutputFormat.PARQUET, OutputFormat.JSONL)


def _side_format(*formats: OutputFormat) -> Form[OutputFormat]:
    def parse(text: str) -> OutputFormat:
        found = next((one for one in formats if one == text.strip().lower()), None)
        if found is None:
            raise FormError
        return found

    return Form(kind="STRING", expected=f"one of {', '.join(formats)}", parse=parse, values=formats)


KEYS_FORMAT: Final = _side_format(*_SIDE_FORMATS, OutputFormat.BYTES)
HEADERS_FORMAT: Final = _side_format(*_SIDE_FORMATS)
DIRECTORY: Final = matching(r"[^/{}\x00-\x1f]+", "the name of one directory, without / and braces")


def _separator(text: str) -> bytes:
    def unescaped(found: re.Match[str]) -> str:
        if found[1] is not None:
            return chr(int(found[1], 16))
        if found[0] not in _SEPARATORS:
            raise FormError
        return _SEPARATORS[found[0]]

    return _ESCAPE.sub(unescaped, text).encode()


SEPARATOR: Final = Form(
    kind="STRING",
    expected="a text, in which \\n, \\r, \\t, \\\\ and \\xNN stand for characters",
    parse=_separator,
    empty=True,
)


def _name_time(text: str) -> tuple[NameTimeSource, tuple[str, ...]]:
    kind, colon, path = text.strip().partition(":")
    try:
        source = NameTimeSource(kind.strip().lower())
    except ValueError:
        raise FormError from None
    if (source is NameTimeSource.VALUE) != bool(colon):
        raise FormError
    try:
        return source, read_path(path.strip()) if colon else ()
    except ValueError as error:
        raise FormError(str(error)) from None


NAME_TIME: Final = Form(kind="STRING", expected="event, wallclock, first or value:PATH", parse=_name_time)


def _indexes(text: str) -> str | None:
    path = text.strip().strip("/")
    if not path or not path.isprintable():
        raise FormError
    return None if path == "none" else path


INDEXES: Final = Form(kind="STRING", expected="a directory of the bucket, or none", parse=_indexes)


def _connector(text: str) -> str:
    name = text.strip()
    if not name or not name.isprintable():
        raise FormError
    return name


# Connect takes names that `name` does not, such as those with blanks.
CONNECTOR_NAME: Final = Form(kind="STRING", expected="the name of a connector in Connect", parse=_connector)


def _missing(text: str) -> str:
    if not text.isprintable():
        raise FormError
    return text


MISSING_TEXT: Final = Form(kind="STRING", expected="a text for names", parse=_missing, empty=True)


def _locale(text: str) -> str:
    found = _LOCALE.fullmatch(text.strip())
    if found is None:
        raise FormError
    return "-".join(filter(None, (found[1].lower(), (found[2] or "").upper())))


LOCALE: Final = Form(kind="STRING", expected="a language such as en, or en-US", parse=_locale)


def _timezone(text: str) -> str:
    try:
        return str(read_zone(text.strip()))
    except ValueError:
        raise FormError from None


TIMEZONE: Final = Form(
    kind="STRING", expected="a time zone such as UTC, Europe/Berlin or +02:00", parse=_timezone
)


def _tags(text: str) -> tuple[bool, tuple[tuple[str, str], ...]]:
    items = listed(text)
    pairs = [item for item in items if item != "offsets"]
    if not all(_TAG.fullmatch(pair) for pair in pairs):
        raise FormError
    found = {name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in pairs)}
    for name in found:
        check_tag(name)
    has_offsets = len(pairs) < len(items)
    if len(found) < len(pairs):
        raise FormError("a tag is there twice")
    if len(found) + _OFFSET_TAGS * has_offsets > _TAGS_MAX:
        raise FormError("an object takes 10 tags, of which offsets are three")
    return has_offsets, tuple(found.items())


TAGS: Final = Form(
    kind="LIST",
    expected="a comma-separated list of `offsets` and name=value pairs",
    parse=_tags,
    empty=True,
)
_EXTENSION: Final = re.compile(r"(\.[A-Za-z0-9]{1,20}){0,4}")


def _extension(text: str) -> str:
    if _EXTENSION.fullmatch(text.strip()) is None:
        raise FormError
    return text.strip()


EXTENSION: Final = Form(
    kind="STRING", expected="the end of names, such as .bin", parse=_extension, empty=True
)


def _decimals(text: str) -> DecimalFormat:
    try:
        return DecimalFormat(text.strip().upper())
    except ValueError:
        raise FormError from None


DECIMALS: Final = Form(
    kind="STRING", expected="base64 or numeric", parse=_decimals, values=("base64", "numeric")
)
STORAGE_CLASS: Final = words(
    "STANDARD",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER_IR",
    "GLACIER",
    "DEEP_ARCHIVE",
    "REDUCED_REDUNDANCY",
    "EXPRESS_ONEZONE",
)
ACL: Final = words(
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
)
NAME_UNIQUE_WORDS: Final = words("required", "assumed")
SSE: Final = words(*Encryption, also="none")
CUSTOMER_ALGORITHM: Final = words("AES256")


def _customer_key(text: str) -> Secret:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise FormError from None
    if len(key) != _KEY_BYTES:
        raise FormError
    return Secret(text.strip())


CUSTOMER_KEY: Final = Form(kind="PASSWORD", expected="32 bytes in base64", parse=_customer_key)
