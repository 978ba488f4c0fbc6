"""Lenses' S3 source (stream-reactor): its options and KCQL in ours."""

import re
from collections.abc import Mapping
from glob import escape
from typing import Final

from headrace.names.archive_names import LayoutName
from headrace.options.transforms.java_regex import JavaRegexError, java_line
from headrace.options.value_types import listed
from headrace.options.vendor import LENSES_SOURCE, SOURCE_CLASS, Fate, Vendor
from headrace.options.vendor_translation import Translation
from headrace.vendors.connect.options import (
    ONE_BUCKET,
    SOURCE_CONVERTERS,
    translate_source_converters,
    warn_of_bad_rows,
)
from headrace.vendors.lenses.kcql import KcqlError, Statement, read_source_kcql
from headrace.vendors.lenses.options import SOURCE_OPTIONS, SOURCE_PROPERTIES
from headrace.vendors.lenses.translation import check_error_policy, translate_connection

# -- Lenses' S3 source in our options ------------------------------------------------------------------------

_KCQL: Final = "connect.s3.kcql"
_SEARCH: Final = "connect.s3.source.partition.search."
_OLDER_SEARCH: Final = "connect.s3.partition.search."
_EXTRACTOR: Final = "connect.s3.source.partition.extractor."
_FORMATS: Final = {
    "JSON": "jsonl",
    "AVRO": "avro",
    "PARQUET": "parquet",
    "TEXT": "text",
    "CSV": "text",
    "BYTES": "bytes",
}
_WITH_ENVELOPE: Final = frozenset({"JSON", "AVRO", "PARQUET"})
_WHOLE_OBJECT: Final = 999_934_464
_FLAGS: Final = {"true": True, "false": False}


class _Properties:
    """The statement's properties, each read once; problems are those of the KCQL."""

    def __init__(self, given: Translation, statement: Statement) -> None:
        self._given = given
        self._texts = {each.name.lower(): each.value for each in statement.properties}
        rows = {row.name: row for row in SOURCE_PROPERTIES}
        needless = [name for name in self._texts if name in rows and rows[name].fate is Fate.NEEDLESS]
        if needless:
            given.warn(f"properties that nothing depends on here: {', '.join(sorted(needless))}")
        for name in self._texts:
            if name not in rows:
                self.refuse(name, "is not a property of Lenses' source that is known here; remove it")

    def text(self, name: str) -> str:
        """The value, empty where there is none."""
        return self._texts.get(name, "").strip()

    def exact_text(self, name: str) -> str:
        """The value, blanks and all, for what is looked for in lines; empty where there is none."""
        return self._texts.get(name, "")

    def has(self, name: str) -> bool:
        """Whether the property is there, be it empty."""
        return name in self._texts

    def flag(self, name: str) -> bool:
        """True or false; false where it is absent."""
        text = self.text(name).lower()
        if text and text not in _FLAGS:
            self.refuse(name, "expected true or false")
        return _FLAGS.get(text, False)

    def refuse(self, name: str, message: str) -> None:
        """Note a problem of a property."""
        known = {row.name for row in SOURCE_PROPERTIES}
        shown = name if name in known else self._given.quoted(_KCQL, name)
        self._given.refuse(_KCQL, f"{shown} {message}")


def _translate(given: Translation) -> None:
    given.rename("name", "name")
    translate_connection(given)
    check_error_policy(given)
    warn_of_bad_rows(given, passed_by=None)
    _translate_search(given)
    statement = _statement(given)
    if statement is None:
        # One problem is enough: what a statement would have said is not missing besides.
        for own, text in (
            ("aws.s3.bucket.name", "unread"),
            ("topic", "unread"),
            ("file.name.template", ".*"),
        ):
            given.own(own, text, by=_KCQL)
        return
    _translate_statement(given, statement)


def _translate_search(given: Translation) -> None:
    """Write how often is listed, and say what ends; both options have names of older versions."""
    for name in ("interval", "continuous", "recurse.levels"):
        given.older(f"{_OLDER_SEARCH}{name}", f"{_SEARCH}{name}")
    interval = _newest(given, "interval")
    given.own("poll.interval.ms", given.integer(interval, 300_000, low=100, high=86_400_000), by=interval)
    continuous = _newest(given, "continuous")
    if not given.flag(continuous, default=True):
        given.warn(f"{continuous}=false: run with --until-idle, which ends when everything is read")


def _newest(given: Translation, name: str) -> str:
    """The name under which an option of the search is given: that of today, where both are."""
    is_older = given.is_given(f"{_OLDER_SEARCH}{name}") and not given.is_given(f"{_SEARCH}{name}")
    return f"{_OLDER_SEARCH if is_older else _SEARCH}{name}"


def _statement(given: Translation) -> Statement | None:
    source = given.text(_KCQL)
    if not source:
        given.refuse(_KCQL, "is missing; expected INSERT INTO topic SELECT * FROM bucket:prefix ..")
        return None
    try:
        statements = read_source_kcql(source)
    except KcqlError as error:
        given.refuse(_KCQL, given.marked(_KCQL, error))
        return None
    if len(statements) > 1:
        given.refuse(
            _KCQL,
            "has several statements; one connector brings one prefix to one topic here: write a "
            "configuration, with another name, for each",
        )
        return None
    return statements[0]


def _translate_statement(given: Translation, statement: Statement) -> None:
    properties = _Properties(given, statement)
    prefix = statement.prefix.removesuffix("/")
    if "," in statement.bucket:
        given.refuse(_KCQL, ONE_BUCKET)
    given.own("aws.s3.bucket.name", statement.bucket, by=_KCQL)
    given.own("aws.s3.prefix", f"{prefix}/" if prefix else "", by=_KCQL)
    has_envelope, has_partitions = properties.flag("store.envelope"), _has_partitions(given)
    restores = has_envelope or has_partitions
    form = (statement.store_as or "JSON").upper()
    typed = SOURCE_CONVERTERS if form in {"AVRO", "PARQUET"} else ()
    translate_source_converters(given, restores=restores, typed=typed)
    by_envelope = properties.flag("source.topic.from.envelope")
    if by_envelope and not has_envelope:
        properties.refuse("source.topic.from.envelope", "needs store.envelope=true")
    if not (by_envelope and has_envelope):
        given.own("topic", statement.topic, by=_KCQL)
    if restores:
        _translate_archive(given, form, properties, has_envelope=has_envelope)
    else:
        _translate_files(given, form, properties)
    _translate_filters(given, restores=restores)
    _translate_action(given, statement, properties)
    if statement.limit is not None:
        given.warn(
            "LIMIT and BATCH decide nothing: there is no poll; transaction.boundary.* closes transactions"
        )
    for option in ("connect.s3.ordering.type", "connect.s3.source.ordering.type"):
        given.choice(option, {"AlphaNumeric": "", "LastModified": ""}, "")
        if given.is_given(option) and not restores:
            given.warn(
                f"{option}: objects are read side by side, each in its own order; ordering=partition with "
                "{{partition}} and {{start_offset}} in file.name.template reads them one after the other"
            )


def _has_partitions(given: Translation) -> bool:
    """Whether names of objects, in the form of Lenses' sink, say the partition."""
    kind, regex = f"{_EXTRACTOR}type", f"{_EXTRACTOR}regex"
    wanted = given.choice(kind, {"hierarchical": True, "regex": None, "none": False}, default=False)
    expression = given.text(regex)
    if wanted is None or (expression and expression.lower() != "none" and not wanted):
        given.refuse(
            kind if wanted is None else regex,
            "reads the partition by an expression; remove both options of the extractor and set "
            "file.name.template with {{partition}} in the place of its group, and ordering=partition",
        )
        return False
    for option in (regex, kind) if not wanted else (regex,):
        given.unused(option, without="an extractor of partitions (`hierarchical`), which takes no expression")
    return bool(wanted)


def _translate_archive(given: Translation, form: str, properties: _Properties, *, has_envelope: bool) -> None:
    """Objects of Lenses' sink: names say partition and order."""
    given.own("input.layout", "lenses", by=_KCQL)
    given.own("store.envelope", has_envelope, by=_KCQL)
    if has_envelope and form not in _WITH_ENVELOPE:
        properties.refuse("store.envelope", f"needs STOREAS JSON, AVRO or PARQUET, not {form}")
    if form.startswith("CSV"):
        given.own("csv.header", form == "CSV_WITHHEADERS", by=_KCQL)
    if properties.text("read.text.mode"):
        properties.refuse("read.text.mode", "has no part in a restore; remove it, or the extractor's options")
    given.warn(
        "objects are read whose names are those of Lenses' sink; others are counted as unmatched and left out"
    )


def _translate_files(given: Translation, form: str, properties: _Properties) -> None:
    """Objects of any names."""
    given.own("file.name.template", ".*")
    given.own("key.source", "none")
    if form == "CSV_WITHHEADERS":
        given.refuse(
            _KCQL,
            "STOREAS CSV_WITHHEADERS: lines without their header are not read as text; write STOREAS `CSV` "
            "and set input.format=csv and csv.header=true, which makes each row a JSON object",
        )
    given.own("input.format", _FORMATS.get(form, "text"), by=_KCQL)
    if form == "BYTES":
        # An object is a record; too large a one is a bad record, never two.
        for size in ("transformer.max.buffer.size", "record.max.bytes"):
            given.own(size, _WHOLE_OBJECT, by=_KCQL)
        given.own("value.format", "raw", by=_KCQL)
        # As it is stored: what is compressed is not unpacked there.
        given.own("file.compression.type", "none", by=_KCQL)
    _translate_text(given, form, properties)


def _translate_text(given: Translation, form: str, properties: _Properties) -> None:
    mode = properties.text("read.text.mode").lower()
    if mode and form != "TEXT":
        properties.refuse("read.text.mode", "is for STOREAS `TEXT`; remove it")
        return
    for flag, why in (
        ("read.text.trim", "is not done here: remove it, blanks around records are kept"),
        (
            "read.text.last.end.line.missing",
            "is not done here: remove it, and read.text.end.line for records that end before the next start",
        ),
    ):
        if properties.flag(flag):
            properties.refuse(flag, why)
    match mode:
        case "":
            return
        case "regex":
            _text_pattern(given, properties)
        case "startendline":
            _text_lines(given, properties)
        case "startendtag":
            properties.refuse(
                "read.text.mode",
                "is StartEndTag, and records begin and end with lines here: use StartEndLine, or "
                "text.start.pattern and text.end.pattern",
            )
        case _:
            properties.refuse("read.text.mode", "expected one of Regex, StartEndLine, StartEndTag")


def _text_pattern(given: Translation, properties: _Properties) -> None:
    expression = properties.exact_text("read.text.regex")
    if not expression:
        properties.refuse("read.text.regex", "is missing")
        return
    try:
        line = java_line(expression)
    except JavaRegexError as error:
        properties.refuse("read.text.regex", f"has no counterpart: {error}")
        return
    # A record ends with the line that it begins with.
    for pattern in ("text.start.pattern", "text.end.pattern"):
        given.own(pattern, line, by=_KCQL)


def _text_lines(given: Translation, properties: _Properties) -> None:
    start = properties.exact_text("read.text.start.line")
    if not start:
        properties.refuse("read.text.start.line", "is missing")
        return
    given.own("text.start.pattern", _whole_line(start), by=_KCQL)
    end = properties.exact_text("read.text.end.line")
    if properties.has("read.text.end.line") and re.fullmatch(re.escape(start), end, re.IGNORECASE):
        properties.refuse(
            "read.text.end.line",
            "is the line of read.text.start.line, and here a record would end with the line that it begins "
            "with: remove it, and records end before the next such line",
        )
    elif properties.has("read.text.end.line"):
        given.own("text.end.pattern", _whole_line(end), by=_KCQL)


def _whole_line(text: str) -> str:
    return rf"(?u)^(?i:{re.escape(text)})\r?\n?$"


def _translate_filters(given: Translation, *, restores: bool) -> None:
    includes, excludes = "connect.s3.source.extension.includes", "connect.s3.source.extension.excludes"
    searched = f"{_SEARCH}excludes"
    folders = listed(given.text(searched, ".indexes"))
    if restores:
        given.own("layout.indexes", ",".join(f"{each.strip('/')}/" for each in [*folders, ".temp-upload"]))
    excluded = [_of_extension(each) for each in listed(given.text(excludes))]
    if not restores or given.is_given(searched):
        excluded += [f"*{escape(each)}*" if each.endswith("/") else f"*{escape(each)}*/*" for each in folders]
    if excluded:
        asked = next(filter(given.is_given, (excludes, searched)), None)
        given.own("object.exclude", ",".join(excluded), by=asked)
    included = [_of_extension(each) for each in listed(given.text(includes))]
    if included:
        given.own("object.include", ",".join(included), by=includes)


def _of_extension(text: str) -> str:
    """The glob of keys with this extension in any case, as Lenses compares; its signs are literal there."""
    return "*." + "".join(
        f"[{sign.lower()}{sign.upper()}]" if sign.isascii() and sign.isalpha() else escape(sign)
        for sign in text.removeprefix(".")
    )


def _translate_action(given: Translation, statement: Statement, properties: _Properties) -> None:
    name = "post.process.action"
    prefix = properties.text(f"{name}.prefix").strip("/")
    bucket = properties.text(f"{name}.bucket").removesuffix("/")
    target = f"{prefix}/"
    if bucket not in ("", statement.bucket):
        # The statement's prefix is replaced in keys there; without one they stay.
        target = f"s3://{bucket}/{target if statement.prefix else ''}"
    actions: Mapping[str, str] = {"": "", "delete": "delete", "move": f"move:{target}"}
    action = properties.text(name).lower()
    if action not in actions:
        properties.refuse(name, "expected Delete or Move")
        return
    if action == "move" and not prefix:
        properties.refuse(f"{name}.prefix", "is missing, which post.process.action=Move needs")
        return
    if action:
        given.own("post.action", actions[action], by=_KCQL)


LENSES_SOURCE_VENDOR: Final = Vendor(
    name="Lenses' S3 source",
    layout=LayoutName.LENSES,
    classes=(LENSES_SOURCE,),
    options=SOURCE_OPTIONS,
    translate=_translate,
    own_class=SOURCE_CLASS,
)
