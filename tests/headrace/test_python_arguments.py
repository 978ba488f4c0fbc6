"""What the Python API takes, and the sentence for what it does not. Nothing is contacted."""

import json
import math
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.frames import as_recorded, check_columns
from headrace.names.archive_names import LayoutName
from headrace.options.sink_settings import OutputFormat
from headrace.quix import FileSink, JSONFormat, ParquetFormat, S3Destination, rotation_of
from spark.frames.writing import spelled

_SINK: dict[str, Any] = {
    "name": "archive",
    "bootstrap.servers": "127.0.0.1:9092",
    "aws.s3.bucket.name": "bucket",
    "topics": "orders",
}
_KAFKA = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}


def _destination(**options: str) -> S3Destination:
    """One that was looked at already."""
    made = S3Destination.__new__(S3Destination)
    made._options = {"aws.s3.bucket.name": "bucket", **options}
    return made


def test_options_come_as_a_mapping_in_both_shapes_and_as_a_file(tmp_path: Path) -> None:
    """Numbers and booleans too, as in the file."""
    flat = headrace.Connector({**_SINK, "rotate.records": 7, "aws.s3.path.style.access": True}).settings
    options = {name: value for name, value in _SINK.items() if name != "name"}
    nested = headrace.Connector({"name": "archive", "config": {**options, "rotate.records": 7}}).settings
    file = tmp_path / "archive.json"
    file.write_text(json.dumps(_SINK))

    assert flat.sink is not None
    assert nested.sink is not None
    assert flat.sink.rotation.records == nested.sink.rotation.records == 7
    assert flat.s3.path_style
    assert headrace.Connector(file).settings.name == "archive"
    assert headrace.Connector(str(file)).settings.name == "archive"


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({}, "name"),
        ({**_SINK, "rotate.recods": 1}, "did you mean rotate.records"),
        ({**_SINK, "rotate.records": {1}}, "a value of set: values are texts, numbers, true or false"),
        (dict([*_SINK.items(), (("a",), 1)]), "a name that is no text"),
        (7, "config is int: give options by name as a dict, or the path of a file"),
        ("there/is/none.json", "cannot be read: No such file"),
    ],
)
def test_a_bad_configuration_is_a_sentence(config: Any, sentence: str) -> None:
    """At once, before anything is started."""
    with pytest.raises(headrace.HeadraceError) as found:
        headrace.Connector(config)
    assert sentence in str(found.value)


def test_secrets_do_not_reach_the_sentence() -> None:
    """A value of a form that nothing takes may be one."""
    with pytest.raises(headrace.InvalidConfiguration) as found:
        headrace.Connector({**_SINK, "aws.secret.access.key": b"hidden"})
    assert "hidden" not in str(found.value)
    assert "hidden" not in repr(_destination(**{"aws.secret.access.key": "hidden"}))


def test_what_was_not_started_is_stopped() -> None:
    """And can neither be waited for nor stopped."""
    connector = headrace.Connector(_SINK)

    assert connector.status() == {"name": "archive", "role": "stopped", "ready": False, "problems": {}}
    assert not connector.is_running
    with pytest.raises(headrace.HeadraceError, match="'archive' was not started"):
        connector.stop()


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 604_801])
def test_a_start_is_bounded(seconds: float) -> None:
    """As `--startup-timeout` is: an endless one says nothing for ever."""
    with pytest.raises(headrace.InvalidConfiguration, match=f"startup_timeout = {seconds}: .* to 604800"):
        headrace.Connector(_SINK, startup_timeout=seconds)


def test_what_writes_batches_can_be_sent_to_spark() -> None:
    """Spark Connect pickles it; a lock and a thread cannot be, and what is made of it was not started."""
    connector = headrace.Connector(_SINK, startup_timeout=7)
    sent = pickle.loads(pickle.dumps(connector.foreach_batch))  # noqa: S301  # our own

    assert sent.__self__.settings == connector.settings
    assert not sent.__self__.is_running
    with pytest.raises(headrace.HeadraceError, match="'archive' was not started"):
        sent.__self__.stop()


def test_run_wants_the_main_thread() -> None:
    """Signals reach no other."""
    found: list[str] = []

    def call() -> None:
        try:
            headrace.run(_SINK)
        except headrace.HeadraceError as error:
            found.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "call it there" in found[0]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FileSink("a", "csv", _destination()), "FileSink(format='csv'): expected 'json', 'parquet'"),  # type: ignore[arg-type]  # what is refused
        (lambda: FileSink("a", "json"), "FileSink(destination=..) has to be a headrace.quix.S3Destination"),
        (lambda: FileSink(Path("a"), "json", _destination()), "FileSink(directory=..) has to be text"),  # type: ignore[arg-type]  # what is refused
        (lambda: JSONFormat(dumps=repr), "JSONFormat(dumps=..) is not called here"),  # type: ignore[arg-type]  # what is refused
        (lambda: JSONFormat(file_extension="jsonl"), "file_extension='jsonl'"),
        (lambda: ParquetFormat(compression="lzo"), "expected none, snappy, gzip"),  # type: ignore[arg-type]  # what is refused
        (lambda: S3Destination("b", use_ssl=False), "S3Destination(use_ssl=..) means nothing here"),
        (lambda: S3Destination("b", verify=False), "always verified"),
        (
            lambda: FileSink(destination=_destination()).configuration(
                topics=[], bootstrap_servers="b:9092", name="n"
            ),
            "FileSink.run(topics=..) is empty",
        ),
        (
            lambda: FileSink(destination=_destination()).run([None], "b:9092", "n"),  # type: ignore[list-item]  # what is refused
            "FileSink.run(topics=..) has None: give names",
        ),
        (lambda: JSONFormat(None), "file_extension=None"),  # type: ignore[arg-type]  # what is refused
        *(
            (
                lambda given=given: FileSink(destination=_destination()).run(
                    ["t"], "b:9092", "n", commit_interval=given
                ),
                f"FileSink.run(commit_interval={given!r}): expected seconds",
            )
            for given in (float("nan"), float("inf"), None, "5")
        ),
    ],
)
def test_a_bad_argument_of_quix_is_a_sentence(make: Callable[[], object], sentence: str) -> None:
    """That names the argument and what to do."""
    with pytest.raises(headrace.InvalidConfiguration) as found:
        make()
    assert sentence in str(found.value)


@pytest.mark.parametrize(
    ("form", "ending", "output"),
    [
        ("json", ".jsonl", OutputFormat.JSONL),
        (JSONFormat(".ndjson", compress=True), ".ndjson.gz", OutputFormat.JSONL),
        ("parquet", ".parquet", OutputFormat.PARQUET),
        (ParquetFormat(compression="gzip"), ".parquet", OutputFormat.PARQUET),
        (ParquetFormat(compression="brotli"), ".parquet", OutputFormat.PARQUET),
    ],
)
def test_formats_of_quix_are_options(form: Any, ending: str, output: OutputFormat) -> None:
    """Names as Quix writes them, below the directory."""
    config = FileSink("data", form, _destination()).configuration(
        topics="a-topic", bootstrap_servers="b:9092", name="archive", options={"rotate.records": 3}
    )
    sink = headrace.Connector(config).settings.sink

    assert sink is not None
    assert sink.output.layout is LayoutName.QUIX
    assert sink.output.format is output
    assert sink.names.prefix == "data/"
    assert sink.names.template == "{{topic:hyphens=_}}/{{partition}}/{{start_offset:padding=19}}" + ending
    assert sink.rotation.records == 3


@pytest.mark.parametrize(
    ("interval", "every", "options"),
    [
        (5.0, 0, {"rotate.age.ms": 5000, "rotate.records": 0}),
        (0.0004, 7, {"rotate.age.ms": 1, "rotate.records": 7}),
        (0, 1000, {"rotate.records": 1}),
        (-1.0, 0, {"rotate.records": 1}),
    ],
)
def test_an_interval_of_nothing_ends_with_each_record(
    interval: float, every: int, options: dict[str, int]
) -> None:
    """As there; here an age of 0 is none, and objects were open for an hour."""
    assert rotation_of(interval, every) == options


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"offset": None}, "The frame has no column offset"),
        ({"value": "struct<a:int>"}, "column value is struct<a:int>: expected binary or string"),
        ({"headers": "string"}, "column headers is string"),
        ({"timestamp": "timestamp_ntz"}, "column timestamp is timestamp_ntz: expected timestamp, as Spark's"),
    ],
)
def test_a_frame_of_other_columns_is_refused(change: dict[str, str | None], sentence: str) -> None:
    """Before Spark runs anything."""
    types = {name: kind for name, kind in {**_KAFKA, **change}.items() if kind is not None}
    with pytest.raises(headrace.InvalidConfiguration) as found:
        check_columns(types)
    assert sentence in str(found.value)


def test_columns_beside_those_of_kafka_do_not_matter() -> None:
    """Nor is a text a reason to refuse keys and values."""
    check_columns({**_KAFKA, "key": "string", "value": "string", "mine": "double"})


class _Frame:
    """Columns with types, as a frame of Spark shows them."""

    def __init__(self, dtypes: list[tuple[str, str]]) -> None:
        self.dtypes = dtypes
        self.columns = [name for name, _ in dtypes]

    def toDF(self, *names: str) -> "_Frame":  # noqa: N802  # Spark's
        return _Frame([(name, kind) for name, (_, kind) in zip(names, self.dtypes, strict=True)])


def test_columns_are_known_in_any_case() -> None:
    """Catalogs and selects spell them otherwise: headers and times were lost without a word."""
    kafka = {**_KAFKA, "headers": "array<struct<key:string,value:binary>>"}
    frame: Any = _Frame([(name.upper(), kind) for name, kind in kafka.items()])
    assert dict(as_recorded(frame).dtypes) == kafka

    wrong: Any = _Frame([*_KAFKA.items(), ("Headers", "string")])
    with pytest.raises(headrace.InvalidConfiguration, match="column headers is string"):
        as_recorded(wrong)


def test_another_spelling_next_to_a_column_is_another_column() -> None:
    """With spark.sql.caseSensitive there may be both; of two others none is the one that is meant."""
    assert spelled(["KEY", "key", "Mine", "timestamptype"]) == ["KEY", "key", "Mine", "timestampType"]
    for twice in (["KEY", "Key"], ["key", "key"]):
        with pytest.raises(
            headrace.HeadraceError, match=f"has the columns {' and '.join(twice)}, and a record has"
        ):
            spelled(twice)
