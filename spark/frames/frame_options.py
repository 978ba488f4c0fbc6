"""The options of the data source: its own, and those of `headrace run` that have a meaning here."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headrace.model.clock import us_since_1970
from headrace.model.errors import FrameRefused
from headrace.model.objects import S3Object
from headrace.model.text_formatting import did_you_mean
from headrace.options import OPTIONS, Settings, SettingsError
from headrace.options.choices import RestorePartition
from headrace.options.declarations.option import Group, Option, option, optional
from headrace.options.given import canonical
from headrace.options.suggestions import suggested
from headrace.options.value_types import BOOLEAN, TEXT, Form, FormError, choice, integer, long
from headrace.process.own_process import read_regular_text
from headrace.vendors.load import load
from spark.frames.addresses import s3_address, state_directory
from spark.frames.admission import ReadLimits
from spark.frames.refused_options import check_columns, check_without_topic, counterpart, has_topic

NO_TOPIC: Final = "headrace.no.topic"
"""In the place of a topic that neither the key nor the options name; the column is null."""


class Rows(StrEnum):
    """What a row of the frame is."""

    RECORDS = "records"
    COLUMNS = "columns"


class OnSuperseded(StrEnum):
    """What becomes of an object of a batch that is not there any more as it was found."""

    SKIP = "skip"
    FAIL = "fail"


class Evolution(StrEnum):
    """What a column that the inferred schema does not have does."""

    FAIL = "fail"
    ADD = "add"
    RESCUE = "rescue"


def _instant(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise FormError("it is not one") from error
    return us_since_1970(found)


_INSTANT: Final[Form[int]] = Form(
    kind="STRING",
    expected="a time such as 2026-01-31T12:00:00, in UTC unless it says otherwise",
    parse=_instant,
)

STATE_PATH = optional(
    "state.path",
    TEXT,
    Group.SPARK,
    "Where the query's discovery log, schema and bad rows are: a directory that the driver and all "
    "executors see, or `s3://bucket/prefix`. Each query has its own. A stream needs it.",
    importance="HIGH",
)
ROWS = option(
    "rows",
    choice(Rows),
    "records",
    Group.SPARK,
    "`records`: key, value, headers, timestamp, topic, partition and `_metadata`. `columns`: the columns "
    "of the "
    "schema that is given or inferred.",
    importance="HIGH",
)
MAX_FILES = optional(
    "maxFilesPerTrigger",
    integer(1),
    Group.SPARK,
    "Objects in one batch, at most.",
    default_says="no limit",
)
MAX_BYTES = optional(
    "maxBytesPerTrigger",
    long(1, unit="bytes"),
    Group.SPARK,
    "Bytes in one batch, as stored; a single object may exceed it.",
    default_says="no limit",
)
MODIFIED_AFTER = optional(
    "modifiedAfter", _INSTANT, Group.SPARK, "Objects last modified at this time or before it are left out."
)
MODIFIED_BEFORE = optional(
    "modifiedBefore", _INSTANT, Group.SPARK, "Objects last modified at this time or after it are left out."
)
ON_SUPERSEDED = option(
    "on.superseded",
    choice(OnSuperseded),
    "fail",
    Group.SPARK,
    "What an object does that was deleted since it was found, or overwritten after its batch was begun: "
    "`fail` the "
    "batch, or `skip` the object. One that is overwritten before is skipped: its new content is another "
    "object.",
)
EVOLUTION = option(
    "schema.evolution",
    choice(Evolution),
    "fail",
    Group.SPARK,
    "A column that the inferred schema does not have: `fail` the query; `add` it to the schema and fail "
    "the query, "
    "which has it after a restart; or `rescue` it into `_rescued_data`.",
)
SAMPLES = option(
    "schema.samples",
    integer(1, 10_000),
    "20",
    Group.SPARK,
    "Objects from which a schema is inferred, where none is given and `state.path` has none.",
)
METADATA = optional(
    "metadata.column",
    BOOLEAN,
    Group.SPARK,
    "Whether rows have the column `_metadata`: bucket, key, version, ETag, size, time, position and the "
    "template's variables.",
    default_says="`true` with `rows=records`, else `false`",
)
SPLIT_BYTES = option(
    "split.bytes",
    long(1024 * 1024, unit="bytes"),
    "134217728",
    Group.SPARK,
    "Objects above it are split over tasks where their format allows.",
)

OWN: Final[tuple[Option[Any], ...]] = (
    STATE_PATH,
    ROWS,
    MAX_FILES,
    MAX_BYTES,
    MODIFIED_AFTER,
    MODIFIED_BEFORE,
    ON_SUPERSEDED,
    EVOLUTION,
    SAMPLES,
    METADATA,
    SPLIT_BYTES,
)
# What Spark hands over beside the options of a source or sink.
_OF_SPARK: Final = frozenset({"path", "checkpointlocation", "queryname"})
# What it hands over of a table of a catalog, whose options it spells `option.NAME`.
_OF_A_TABLE: Final = "provider"
_GLOB: Final = re.compile(r"[*?\[{]")
_SHARED_GROUPS: Final = frozenset(
    {Group.S3, Group.SQS, Group.DISCOVERY, Group.RECORDS, Group.RESTORE, Group.ROUTING}
)
# They need what only the service has: a ledger, commits to Kafka, joined side objects, a rate for all slots.
_NOT_SHARED: Final = frozenset(
    {
        "initial.inventory",
        "post.action",
        "post.action.unconditional",
        "max.bytes.per.second",
        "distribution.type",
        "ordering",
        "record.fields",
        "restore.sidecars",
        "restore.sidecars.wait.ms",
        "restore.tombstones",
    }
)
SHARED: Final[tuple[Option[Any], ...]] = tuple(
    one
    for one in OPTIONS
    if (one.group in _SHARED_GROUPS and one.name not in _NOT_SHARED)
    or one.name in {"tasks.max", "errors.tolerance"}
)
_BASE: Final = {
    "name": "frames",
    # No client is made for it.
    "bootstrap.servers": "unused:9092",
    "record.max.bytes": "67108864",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FramesSettings:
    """What a query of the source is given; small and picklable, since tasks get it too.

    `shared` are the settings of `headrace run` in the same words. `tasks` None: as many as the driver has
    cores.
    """

    shared: Settings
    state_path: str | None
    rows: Rows
    limits: ReadLimits
    modified_after_us: int | None
    modified_before_us: int | None
    on_superseded: OnSuperseded
    evolution: Evolution
    samples: int
    has_metadata: bool
    split_bytes: int
    tasks: int
    given: frozenset[str]
    """The own options that the query names."""

    def is_in_time(self, found: S3Object) -> bool:
        """Whether the object is one of those of `modifiedAfter` and `modifiedBefore`."""
        after, before = self.modified_after_us, self.modified_before_us
        modified_us = found.last_modified_ms * 1000
        return (after is None or modified_us > after) and (before is None or modified_us < before)

    def is_state(self, key: str) -> bool:
        """Whether an object is a file of the query's own `state.path`, which may lie in what is read."""
        bucket, folder = s3_address(self.state_path or "") or ("", "")
        return bucket == self.shared.s3.bucket and key.startswith(f"{folder.strip('/')}/")

    @property
    def url(self) -> str:
        """What is read, for messages."""
        return f"s3://{self.shared.s3.bucket}/{self.shared.s3.prefix}"


def reading_settings(options: Mapping[str, str]) -> FramesSettings:
    """The settings of a read; FrameRefused with every problem on a line of its own."""
    items = tuple(sorted(options.items()))
    if any("${" in value for value in options.values()):
        # What is named may have changed since: a secret is renewed, and this process lives on.
        return _read(items)
    return _reading(items)


@lru_cache(maxsize=4)
def _reading(items: tuple[tuple[str, str], ...]) -> FramesSettings:
    return _read(items)


def _read(items: tuple[tuple[str, str], ...]) -> FramesSettings:
    own, shared, problems = split_options(dict(items), SHARED)
    problems += _globs_in(dict(items))
    values = parsed(own, problems)
    rows = values.get(ROWS.name, Rows.RECORDS)
    if "topic" not in shared and not has_topic(shared.get("file.name.template", "")):
        shared["topic"] = NO_TOPIC
    if shared.get("input.layout", "none") == "none":
        shared.setdefault("file.name.template", ".*")
    else:
        shared |= {"restore.sidecars": "ignore", "restore.tombstones": "ignore"}
        if shared.get("topic") == NO_TOPIC:
            del shared["topic"]
    if rows is Rows.COLUMNS:
        shared.setdefault("input.format", "auto")
    settings = loaded({**_BASE, **shared}, problems)
    if settings.more_buckets:
        raise FrameRefused(
            f"aws.s3.bucket.name = {shared['aws.s3.bucket.name']!r}: a query reads one bucket. Give each a "
            "query of its own (and a state.path, where it is a stream), and union them."
        )
    if rows is Rows.COLUMNS:
        check_columns(settings.format, shared)
    if settings.routing.topic == NO_TOPIC:
        check_without_topic(settings.format, shared)
    restore = settings.format.restore
    if restore is not None and restore.partition is RestorePartition.MODULO:
        raise FrameRefused(
            "restore.partition=modulo needs the number of partitions of a topic, and a query has none: use "
            "original, or partitioner, with which the column is null."
        )
    if values[STATE_PATH.name] is not None:
        state_directory(values[STATE_PATH.name])
    has_metadata = values[METADATA.name]
    return FramesSettings(
        shared=settings,
        state_path=values[STATE_PATH.name],
        rows=rows,
        limits=ReadLimits(max_files=values[MAX_FILES.name], max_bytes=values[MAX_BYTES.name]),
        modified_after_us=values[MODIFIED_AFTER.name],
        modified_before_us=values[MODIFIED_BEFORE.name],
        on_superseded=values[ON_SUPERSEDED.name],
        evolution=values[EVOLUTION.name],
        samples=values[SAMPLES.name],
        has_metadata=rows is Rows.RECORDS if has_metadata is None else has_metadata,
        split_bytes=values[SPLIT_BYTES.name],
        tasks=settings.identity.tasks_max or max(2, os.cpu_count() or 2),
        given=frozenset(own),
    )


def _globs_in(options: Mapping[str, str]) -> Iterator[str]:
    """The problem of a path that Spark's own sources would match with keys, where it is a prefix here."""
    for name, path in options.items():
        prefix = (s3_address(path) or ("", ""))[1] if name.lower() == "path" else ""
        if glob := _GLOB.search(prefix):
            yield (
                f"path = {path!r}: is the beginning of keys, without globs: end it before {glob[0]} and set "
                f"object.include = {prefix!r}, whose globs are on the whole key (a comma between several). A "
                "prefix with such signs of its own is given by aws.s3.bucket.name and aws.s3.prefix"
            )


def split_options(
    options: Mapping[str, str],
    shared: tuple[Option[Any], ...],
    *,
    instead: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """The source's own options, those of `headrace run`, and problems. Spark gives names in small letters.

    `instead`: what to do about options of `headrace run` that are none here, by name.
    FrameRefused where Spark has handed none over.
    """
    if not options or any(name.lower() == _OF_A_TABLE for name in options):
        raise FrameRefused(
            "There are no options: give .load('s3://bucket/prefix/'), or .option('path', ..). Of a table of "
            "a catalog Spark hands none to a Python data source: use CREATE TEMPORARY VIEW .. USING headrace "
            "OPTIONS (..), or spark.read.options(..).table(..)."
        )
    own_names = {one.name.lower(): one.name for one in OWN}
    shared_names = {name.lower(): name for one in shared for name in (one.name, *one.aliases)}
    own: dict[str, str] = {}
    others: dict[str, str] = {}
    problems: list[str] = []
    for name, value in options.items():
        lower = name.lower()
        if lower in own_names:
            own[own_names[lower]] = value
        elif lower in shared_names:
            others[shared_names[lower]] = value
        elif lower == "paths":
            problems.append(
                "paths: a query reads one path: give the beginning that all have, with object.include, or "
                "union queries"
            )
            others.setdefault("aws.s3.bucket.name", "of-the-path")
        elif lower not in _OF_SPARK:
            known = {**own_names, **shared_names}
            meant = canonical(known.get(suggested(lower, known) or "", "")) or None
            hint = (
                instead.get(lower)
                or counterpart(lower)
                or did_you_mean(meant, otherwise="docs/spark.md lists the options")
            )
            problems.append(f'{name}: is not an option of format("headrace"); {hint}')
    others = _by_name(others)
    path = next((value for name, value in options.items() if name.lower() == "path"), None)
    if path:
        _take_path(path, others, problems)
    elif "aws.s3.bucket.name" not in others:
        problems.append(
            "path: is missing; give s3://bucket/prefix to load or save, as an option, or aws.s3.bucket.name"
        )
        others["aws.s3.bucket.name"] = "of-the-path"
    return own, others, problems


def _by_name(given: Mapping[str, str]) -> dict[str, str]:
    """The options by their names; spellings of one with several values stay, for `load` to refuse them."""
    spellings: dict[str, dict[str, str]] = {}
    for spelled, value in given.items():
        spellings.setdefault(canonical(spelled), {})[spelled] = value
    found: dict[str, str] = {}
    for name, values in spellings.items():
        is_one = len({value.strip().lower() for value in values.values()}) == 1
        found |= {name: next(iter(values.values()))} if is_one else values
    return found


def _take_path(path: str, shared: dict[str, str], problems: list[str]) -> None:
    """What `.load(path)` names: bucket and prefix."""
    address = s3_address(path)
    if address is None or not address[0]:
        problems.append(f"path = {path!r}: expected s3://bucket/prefix")
        # It is not missing as well.
        shared.setdefault("aws.s3.bucket.name", "of-the-path")
        return
    for name, value in zip(("aws.s3.bucket.name", "aws.s3.prefix"), address, strict=True):
        if shared.setdefault(name, value) != value:
            problems.append(
                f"path = {path!r}: {name} = {shared[name]!r} says something else; remove one of both"
            )


def parsed(own: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    """The values of the source's own options, defaults filled in; a problem for each that has none."""
    found: dict[str, Any] = {}
    for one in OWN:
        text = own.get(one.name, one.default)
        try:
            found[one.name] = None if text is None else one.form.parse(text)
        except FormError as error:
            reason = f"; {error}" if str(error) else ""
            problems.append(f"{one.name} = {text!r}: expected {one.form.expected}{reason}")
    return found


def loaded(options: Mapping[str, str], problems: list[str]) -> Settings:
    """Settings of these options; FrameRefused with all problems, those found before among them."""
    try:
        settings = load_settings(options)
    except SettingsError as error:
        problems += [str(problem) for problem in error.problems]
    if problems:
        raise FrameRefused("\n".join(problems))
    return settings


def load_settings(options: Mapping[str, str]) -> Settings:
    """Settings of these options of `headrace run`; SettingsError with all problems."""
    return load(
        msgspec.json.encode(options).decode(),
        kind="json",
        environment=os.environ,  # noqa: TID251  # a process of Spark's driver: this is where it is composed
        read_file=read_regular_text,
    )
