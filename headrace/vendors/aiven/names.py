"""Keys of Aiven's sink, by its two regimes and its template, and its names as templates of ours."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headrace.names import KeyTemplate
from headrace.names.archive_names import (
    KEY_VARIABLE,
    ArchiveName,
    Inexact,
    LayoutName,
    NameElement,
    archive_template,
    read_offset,
    read_partition,
    without_prefix,
)
from headrace.options.choices import NameOptions
from headrace.options.vendor_translation import Translation

# What `format.output.fields` may name.
FIELDS: Final = frozenset({"key", "value", "offset", "timestamp", "headers"})
# A partition is written plain. An offset is written plain, or with 20 digits behind a prefix.
_FILE: Final = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>0|[1-9][0-9]*)-(?P<offset>[0-9]{20}|0|[1-9][0-9]{0,18})"
    r"(?P<extension>(?:\.avro)?(?:\.(?:gz|snappy|zst))?)"
)
# As many directories as a record key may make; each number of them is a template of its own.
_MAX_SLASHES: Final = 64

_MIXED: Final = Inexact(
    NameElement.OFFSET,
    "the name has a time, so its start offset is that of the sink's batch, not of the object's first record",
)
_TIME_ORDER: Final = Inexact(
    NameElement.ORDER,
    "records of one batch are spread over objects by their time, so their order between objects is lost",
)


def read_name(key: str, options: NameOptions) -> ArchiveName | None:
    """What a key without a template of its own says, or None for a key that this sink does not write.

    Greedy: hyphens and digits belong to the topic, the last two numbers are partition and offset.
    """
    rest = without_prefix(key, options.prefix)
    if rest is None:
        return None
    file = rest.rpartition("/")[2]
    found = _FILE.fullmatch(file)
    if found is None:
        return None
    partition, offset = read_partition(found["partition"]), read_offset(found["offset"])
    if partition is None or offset is None:
        return None
    return ArchiveName(
        key=key,
        layout=LayoutName.AIVEN,
        rule="default" if file == key else "prefix",
        topic=found["topic"],
        partition=partition,
        start_offset=offset,
        stem=key,
        extension=found["extension"],
    )


class TemplateNames:
    """Reads keys that were made by `file.name.template`; TemplateError for one that does not parse.

    `{{key}}` is taken over and not used: what it shows is text in which null and `null` are one.
    """

    def __init__(self, template: str) -> None:
        self._source = template
        self._keys = len(KEY_VARIABLE.findall(template))
        self._slashes = template.count("/")
        self._templates: dict[int, KeyTemplate] = {}
        self._template(0)

    def _template(self, slashes: int) -> KeyTemplate:
        """The template for record keys with so many slashes, which make directories of their own."""
        if slashes not in self._templates:
            self._templates[slashes] = archive_template(self._source, slashes)
        return self._templates[slashes]

    def __call__(self, key: str, options: NameOptions) -> ArchiveName | None:
        """What the key says, or None for a key that the template does not give."""
        rest = without_prefix(key, options.prefix)
        if rest is None:
            return None
        slashes = max(0, rest.count("/") - self._slashes)
        if slashes and (not self._keys or slashes % self._keys or slashes > _MAX_SLASHES):
            return None
        template = self._template(slashes // self._keys if slashes else 0)
        fields = template.match(rest)
        if fields is None:
            return None
        inexact = []
        if "timestamp" in template.names:
            inexact += [_MIXED, _TIME_ORDER]
        if self._keys:
            why = "the name is of a record key: only the newest record of each key is in the archive"
            inexact.append(Inexact(NameElement.ORDER, why))
        return ArchiveName(
            key=key,
            layout=LayoutName.AIVEN,
            rule="template",
            topic=fields.topic,
            partition=fields.partition,
            start_offset=fields.start_offset,
            first_timestamp_ms=fields.timestamp_ms,
            stem=key,
            extension=self._extension(template, rest),
            is_by_itself="start_offset" in self._source.rpartition("/")[0],
            inexact=tuple(inexact),
        )

    def _extension(self, template: KeyTemplate, rest: str) -> str:
        """What names the format: never a word of the topic's name, nor of a record key."""
        literal = self._source.rpartition("}}")[2]
        ending = literal if self._keys and literal else template.ending(rest)
        return "".join(ending.rpartition("/")[2].partition(".")[1:])


_VARIABLE: Final = re.compile(r"\{\{\s*(\w+)\s*(?::\s*(\w+)\s*=\s*(\w+)\s*)?\}\}")
_UNITS: Final = {"yyyy": "yyyy", "YYYY": "yyyy", "MM": "MM", "dd": "dd", "HH": "HH"}
_PADDED: Final = frozenset({"partition", "start_offset"})
_IN_TEMPLATES: Final = ("topic", "partition", "start_offset", "timestamp", "key")
_IN_PREFIXES: Final = ("topic", "partition", "start_offset", "timestamp", "utc_date", "local_date")
_CHANGELOG: Final = frozenset({"topic", "partition", "start_offset"})
_REFUSED_START: Final = ".well-known/acme-challenge"
_DEFAULT: Final = "{{topic}}-{{partition}}-{{start_offset}}"
_BEHIND_PREFIX: Final = "{{topic}}-{{partition}}-{{start_offset:padding=20}}"
_TEMPLATE: Final = "file.name.template"
_ZONE: Final = "timestamp.timezone"
_TEMPLATE_TIMES: Final = ("file.name.timestamp.source", "file.name.timestamp.timezone")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTemplate:
    """A template in our words, and the names of its variables."""

    text: str
    variables: frozenset[str]

    @property
    def has_time(self) -> bool:
        """Whether it shows times."""
        return "timestamp" in self.variables

    @property
    def is_of_keys(self) -> bool:
        """Whether a later object of a key replaces the earlier one."""
        return "key" in self.variables and "start_offset" not in self.variables


class _InvalidTemplate(ValueError):
    """The template is not one of Aiven's; the message is its problem."""


def translate_names(given: Translation, extension: str, compression_suffix: str) -> None:
    """Write names, their times, and what closes objects with them.

    `extension` is after default names, `compression_suffix` after those with a prefix; a template has
    its own.
    """
    given.own("file.name.values", "plain")
    prefix = next((name for name in ("aws.s3.prefix", "aws_s3_prefix") if given.is_given(name)), None)
    for name in ("aws.s3.prefix", "aws_s3_prefix"):
        given.exact_text(name)
    try:
        template = _read(given.text(_TEMPLATE), _IN_TEMPLATES) if given.is_given(_TEMPLATE) else None
        if template is not None:
            _check_regime(template)
    except _InvalidTemplate as problem:
        given.refuse(_TEMPLATE, str(problem))
        return
    if prefix is not None:
        _behind_prefix(given, prefix, template, compression_suffix)
    elif template is not None:
        _by_template(given, template)
    else:
        given.own(_TEMPLATE, _DEFAULT + extension)
        if _is_scheduled(given):
            given.rename("file.name.timestamp.timezone", "file.name.timestamp.timezone")
    if prefix is None:
        given.unused("timestamp.source", _ZONE, without="times in aws.s3.prefix")
    if prefix is not None or template is None or not template.has_time:
        names = _TEMPLATE_TIMES if prefix is not None else _but_of_schedules(given, _TEMPLATE_TIMES)
        given.unused(*names, without="times in file.name.template alone, without aws.s3.prefix")


def _but_of_schedules(given: Translation, names: Iterable[str]) -> list[str]:
    """Those that decide nothing without times in names; a zone is that of `rotate.schedule.ms`, too."""
    return [name for name in names if not (_is_scheduled(given) and name.endswith("timezone"))]


def _is_scheduled(given: Translation) -> bool:
    return given.own_given("rotate.schedule.ms") not in ("", "0")


def max_records(given: Translation) -> int:
    """How many records an object takes, 0 for any number; names of keys alone take one."""
    records = given.integer("file.max.records", 0, low=0, high=2**31 - 1)
    try:
        is_of_keys = given.is_given(_TEMPLATE) and _read(given.text(_TEMPLATE), _IN_TEMPLATES).is_of_keys
    except _InvalidTemplate:
        return records
    if is_of_keys and records > 1:
        given.refuse(
            "file.max.records",
            f"must be 0 or 1 with {_TEMPLATE}={given.text(_TEMPLATE)}, whose objects have one record",
        )
    return 0 if is_of_keys else records


def _read(text: str, allowed: tuple[str, ...]) -> ReadTemplate:
    variables = set()

    def ours(found: re.Match[str]) -> str:
        name, parameter, value = found.groups()
        if name not in allowed:
            raise _InvalidTemplate(f"has {{{{{name}}}}}, which is not one of {', '.join(allowed)}")
        variables.add(name)
        if name == "timestamp":
            if parameter != "unit" or value not in _UNITS:
                raise _InvalidTemplate(
                    "has {{timestamp}} without a unit: write {{timestamp:unit=yyyy}}, MM, dd or HH"
                )
            return f"{{{{timestamp:unit={_UNITS[value]}}}}}"
        if parameter is None:
            return f"{{{{{name}}}}}"
        if name not in _PADDED or parameter != "padding" or value not in ("true", "false"):
            raise _InvalidTemplate(
                f"has {{{{{name}:{parameter}={value}}}}}: partition and start_offset take padding=true or "
                "false, other variables nothing"
            )
        return f"{{{{{name}:padding=true}}}}" if value == "true" else f"{{{{{name}}}}}"

    return ReadTemplate(text=_VARIABLE.sub(ours, text), variables=frozenset(variables))


def _check_regime(template: ReadTemplate) -> None:
    """Raise where Aiven's sink has no grouping for these variables."""
    if template.text.startswith(_REFUSED_START):
        raise _InvalidTemplate(f"begins with {_REFUSED_START}, which Aiven's sink refuses")
    variables = template.variables
    grouped = variables - {"timestamp", "key"}
    if "start_offset" not in variables and "key" in variables and not template.has_time:
        return
    if not grouped >= _CHANGELOG:
        raise _InvalidTemplate(
            "has variables by which Aiven's sink does not group: write topic, partition and start_offset, "
            "with key or timestamp or both, or key with topic or partition or neither"
        )


def _by_template(given: Translation, template: ReadTemplate) -> None:
    text, source = template.text, _source(given, "file.name.timestamp.source")
    if template.has_time:
        given.own("file.name.timestamp.source", source, by="file.name.timestamp.source")
        if source != "wallclock" and "key" not in template.variables:
            given.own("rotate.together", "first")
            if max_records(given):
                # There a record of another hour than the one before it begins an object of its own offset.
                given.own("rotate.on.group.change", "true")
            else:
                text = text.replace("{{start_offset", "{{batch_offset")
    given.own(_TEMPLATE, text, by=_TEMPLATE)
    given.rename("file.name.timestamp.timezone", "file.name.timestamp.timezone")


def _behind_prefix(given: Translation, prefix: str, template: ReadTemplate | None, suffix: str) -> None:
    if template is not None and template.variables - _CHANGELOG:
        given.refuse(
            _TEMPLATE,
            f"groups records by key or time while {prefix} names their objects, which would overwrite one "
            "another; keep one of the two",
        )
    try:
        read = _read(given.text(prefix), _IN_PREFIXES)
    except _InvalidTemplate as problem:
        given.refuse(prefix, str(problem))
        return
    behind = _BEHIND_PREFIX + suffix
    if read.variables:
        # Their prefix passes over a partition's padding.
        text = read.text.replace("{{partition:padding=true}}", "{{partition}}")
        given.own(_TEMPLATE, text + behind, by=prefix)
    else:
        given.own("aws.s3.prefix", read.text, by=prefix)
        given.own(_TEMPLATE, behind)
    source, is_local = _source(given, "timestamp.source"), "local_date" in read.variables
    if read.has_time and source.startswith("value:"):
        given.refuse(
            "timestamp.source",
            "is the field of an object's first record there, while others may have other times, which has no "
            "counterpart: use EVENT, or {{timestamp:..}} in file.name.template instead of a prefix",
        )
    elif read.has_time:
        given.own(
            "file.name.timestamp.source", "first" if source == "event" else source, by="timestamp.source"
        )
    else:
        names = _but_of_schedules(given, ("timestamp.source", _ZONE))
        given.unused(
            *(each for each in names if not (is_local and each == _ZONE)), without=f"times in {prefix}"
        )
    given.rename(_ZONE, "file.name.timestamp.timezone")
    if is_local:
        _warn_of_local_dates(given, prefix)


def _warn_of_local_dates(given: Translation, prefix: str) -> None:
    """Have an operator read whose days these are: there is one zone of names here."""
    zone = given.text(_ZONE)
    given.warn(
        f"{{{{local_date}}}} in {prefix} is in {zone} by {_ZONE}, where the other connector has the zone of "
        "Connect's worker"
        if zone
        else f"{{{{local_date}}}} in {prefix} is in UTC; set {_ZONE} where Connect's worker has another zone"
    )


def _source(given: Translation, option: str) -> str:
    """Where times in names come from, in our words."""
    text = given.text(option, "WALLCLOCK")
    kind, _, path = text.partition(":")
    match kind.strip().upper():
        case "WALLCLOCK" | "EVENT" if not path:
            return kind.strip().lower()
        case "SIMPLE_DATA" if path and not path.startswith("."):
            return f"value:{path}"
        case _:
            given.refuse(option, "expected WALLCLOCK, EVENT, or SIMPLE_DATA: with the path of a field")
            return "wallclock"
