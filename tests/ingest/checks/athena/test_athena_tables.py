"""The tables of Athena for each layout and format: each DDL is parsed by a parser of Athena's dialect."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest
from typer.testing import CliRunner

from ingest.checks.athena import NotQueryable, Table, ddl, table_input
from ingest.cli.app import app
from ingest.cli.athena import table_of
from ingest.cli.sink_explain import sample_record
from tests.support.sink_archives import sink_settings

if TYPE_CHECKING:
    from sqlglot import exp

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_BASE: Final = {"connector.class": "HeadraceSink", "topics": "orders", "aws.s3.bucket.name": "lake"}
_RECORD: Final = {
    "key": "k",
    "timestamp": 1_767_268_800_000,
    "value": {"id": 7, "total": 1.5, "customer": {"name": "n", "tags": ["a"]}, "select": None},
}
_SCHEMA: Final = {
    "schema": {
        "type": "struct",
        "fields": [
            {"field": "id", "type": "int64", "optional": False},
            {"field": "total", "type": "double", "optional": True},
            {
                "field": "customer",
                "type": "struct",
                "optional": True,
                "fields": [{"field": "name", "type": "string", "optional": True}],
            },
        ],
    },
    "payload": {"id": 7, "total": 1.5, "customer": {"name": "n"}},
}


def _table(
    options: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]] = (_RECORD,),
    *,
    topic: str = "orders",
    is_repaired: bool = False,
) -> Table:
    settings = sink_settings({**_BASE, **options})
    found = [sample_record(settings, json.dumps({"topic": topic, **record})) for record in records]
    return table_of(settings, topic, found, database="lake", table="orders", is_repaired=is_repaired)


def _statements(text: str) -> "list[exp.Expr | None]":
    """The statements as a parser of Athena's dialect reads them."""
    import sqlglot  # here, as every xdist worker imports this module

    return sqlglot.parse(text, dialect="athena")


def _parsed(table: Table) -> "exp.Create":
    """The one statement; nothing of it may be left to chance."""
    from sqlglot import exp  # as above

    (statement,) = _statements(ddl(table)[0])
    assert isinstance(statement, exp.Create), ddl(table)[0]
    return statement


def _columns(table: Table) -> dict[str, str]:
    return {column.name: column.type for column in table.form.columns}


_OWN_COLUMNS: Final = {"topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value"}


@pytest.mark.parametrize(
    ("layout", "output", "converter", "columns"),
    [
        ("headrace", "jsonl", _JSON, {"topic", "partition", "offset", "timestamp", "key", "value"}),
        ("headrace", "csv", _JSON, _OWN_COLUMNS | {"headers"}),
        ("headrace", "avro", _JSON, _OWN_COLUMNS),
        ("headrace", "parquet", _JSON, _OWN_COLUMNS),
        ("headrace", "text", None, {"line"}),
        ("aiven", "jsonl", _JSON, {"value"}),
        ("aiven", "csv", None, {"value"}),
        ("aiven", "parquet", _JSON, {"value"}),
        ("confluent", "jsonl", _JSON, {"id", "total", "customer"}),
        ("confluent", "avro", _JSON, {"id", "total", "customer"}),
        ("confluent", "parquet", _JSON, {"id", "total", "customer"}),
        ("lenses", "jsonl", _JSON, {"value"}),
        ("lenses", "avro", _JSON, {"id", "total", "customer"}),
        ("lenses", "parquet", _JSON, {"id", "total", "customer"}),
        ("lenses", "csv", _JSON, {"id", "total", "customer"}),
        ("quix", "json", None, {"_timestamp", "_key", "_value"}),
        ("quix", "parquet", None, {"_timestamp", "_key", "id", "total"}),
    ],
)
def test_every_layout_and_format_that_can_be_queried(
    layout: str, output: str, converter: str | None, columns: set[str]
) -> None:
    """Its DDL parses, and names the columns that the objects have."""
    options: dict[str, Any] = {"output.layout": layout, "output.format": output}
    value: Any = _RECORD["value"]
    if converter is not None:
        options |= {"value.converter": converter, "value.converter.schemas.enable": True}
        value = _SCHEMA
    if output == "text":
        options |= {"output.fields": "value", "output.envelope": False}
    if layout == "lenses" and output != "jsonl":
        options["output.envelope"] = False
    if layout == "quix":
        value = {"id": 7, "total": 1.5}
    table = _table(options, [{**_RECORD, "value": value}])
    found = _columns(table)

    assert columns <= set(found), found
    statement = _parsed(table)
    assert [str(each.this) for each in statement.this.expressions] == [f'"{name}"' for name in found]
    assert statement.args["kind"] == "TABLE"
    glue = table_input(table)["TableInput"]
    assert [each["Name"] for each in glue["StorageDescriptor"]["Columns"]] == list(found)
    assert json.dumps(glue)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"output.format": "json"}, "output.format=json writes one array"),
        (
            {"output.format": "bytes", "output.fields": "value", "output.envelope": False},
            "output.format=bytes",
        ),
        (
            {
                "output.format": "text",
                "output.fields": "value",
                "output.envelope": False,
                "output.separator": "|",
            },
            "ends a row of text at a line feed",
        ),
        ({"file.compression.type": "snappy"}, "framed otherwise than Athena reads it"),
        (
            {"file.name.template": "{{topic}}/{{partition}}/{{start_offset}}.jsonl"},
            "do not end with .gz, by which Athena knows",
        ),
        ({"sidecars": "keys", "output.fields": "value"}, "Objects of keys or headers are next to"),
        (
            {
                "topics": "orders,others",
                "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}{{extension}}",
            },
            "are in one directory with those of other topics",
        ),
        (
            {
                "output.layout": "aiven",
                "output.format": "avro",
                "value.converter": _JSON,
                "file.compression.type": "gzip",
            },
            "The whole Avro file is compressed",
        ),
    ],
)
def test_what_athena_cannot_read_is_a_sentence(options: Mapping[str, Any], sentence: str) -> None:
    """That names the option and what to set."""
    record = {**_RECORD, "value": _SCHEMA} if "value.converter" in options else _RECORD
    with pytest.raises(NotQueryable) as found:
        _table(options, [record])
    assert sentence in str(found.value)


@pytest.mark.parametrize(
    ("template", "location", "projected", "expected"),
    [
        (
            "{{topic}}/{{partition}}/{{start_offset}}{{extension}}",
            "s3://lake/in/orders/",
            "s3://lake/in/orders/${kafka_partition}/",
            {"kafka_partition": {"type": "integer", "range": "0,1023"}},
        ),
        (
            "{{topic}}/p={{partition:padding=4}}/{{date:yyyy/MM/dd/HH}}/{{start_offset}}{{extension}}",
            "s3://lake/in/orders/",
            "s3://lake/in/orders/p=${p}/${dt}/",
            {
                "p": {"type": "integer", "range": "0,1023", "digits": "4"},
                "dt": {
                    "type": "date",
                    "format": "yyyy/MM/dd/HH",
                    "range": "NOW-10YEARS,NOW+1DAYS",
                    "interval": "1",
                    "interval.unit": "HOURS",
                },
            },
        ),
        (
            "{{joda:'year'=YYYY/'month'=MM}}/{{topic}}/{{partition}}-{{start_offset}}{{extension}}",
            "s3://lake/in/",
            "s3://lake/in/${dt}/orders/",
            {
                "dt": {
                    "type": "date",
                    "format": "'year'=yyyy/'month'=MM",
                    "range": "NOW-10YEARS,NOW+1DAYS",
                    "interval": "1",
                    "interval.unit": "MONTHS",
                }
            },
        ),
        (
            "{{topic}}/y={{timestamp:unit=yyyy}}/m={{timestamp:unit=MM}}/customer={{key}}/{{partition}}-{{start_offset}}.gz",
            "s3://lake/in/orders/",
            "s3://lake/in/orders/y=${y}/m=${m}/customer=${customer}/",
            {
                "y": {
                    "type": "date",
                    "format": "yyyy",
                    "range": "NOW-10YEARS,NOW+1DAYS",
                    "interval": "1",
                    "interval.unit": "YEARS",
                },
                "m": {"type": "integer", "range": "1,12", "digits": "2"},
                "customer": {"type": "injected"},
            },
        ),
        (
            "{{topic}}/{{value:id}}/offsets/{{start_offset}}/{{partition}}{{extension}}",
            "s3://lake/in/orders/",
            "s3://lake/in/orders/${id}/offsets/",
            {"id": {"type": "injected"}},
        ),
    ],
)
def test_directories_are_partitions(
    template: str, location: str, projected: str, expected: Mapping[str, Mapping[str, str]]
) -> None:
    """Up to the first that is of one object alone."""
    table = _table({"file.name.template": template, "aws.s3.prefix": "in/", "value.converter": _JSON})
    options = table.options

    assert table.partitions.location == location
    assert options["storage.location.template"] == projected
    assert {
        name: {
            key.removeprefix(f"projection.{name}."): text
            for key, text in options.items()
            if key.startswith(f"projection.{name}.")
        }
        for name in expected
    } == expected
    assert [column.name for column in table.partitions.columns] == list(expected)
    _parsed(table)


def test_a_partition_never_has_the_name_of_a_column() -> None:
    """Which Athena refuses, in whatever case."""
    table = _table(
        {
            "file.name.template": "{{topic}}/Value={{value:id}}/{{partition}}-{{start_offset}}{{extension}}",
            "value.converter": _JSON,
        }
    )
    assert [column.name for column in table.partitions.columns] == ["value_dir"]
    assert "A query has to say WHERE value_dir = '..'" in "".join(table.notes())


_FILE: Final = "{{partition}}-{{start_offset}}{{extension}}"


@pytest.mark.parametrize(
    ("source", "template", "noted"),
    [
        ("value:born", "{{date:yyyy-MM-dd}}", ["dt"]),
        ("value:born", "{{date:yyyy}}/{{date:MM}}", ["year"]),
        ("value:born", "{{date:EEE}}", []),
        ("value:born", "{{utc_date}}", []),
        ("event", "{{date:yyyy-MM-dd}}", []),
    ],
)
@pytest.mark.parametrize("is_repaired", [False, True])
def test_times_of_values_may_be_older_than_the_table(
    source: str, template: str, noted: list[str], *, is_repaired: bool
) -> None:
    """Dates of birth are in directories that projection leaves out without a word."""
    where = "dt={{date:yyyy-MM-dd}}" if is_repaired else template
    table = _table(
        {
            "file.name.template": f"{where}/{_FILE}",
            "file.name.timestamp.source": source,
            "value.converter": _JSON,
        },
        [{**_RECORD, "value": {"born": "1965-02-26"}}],
        is_repaired=is_repaired,
    )
    found = [note for note in table.notes() if "ten years" in note]
    options = [note.partition("projection.")[2].partition(".range")[0] for note in found]
    assert options == ([] if is_repaired else noted)


@pytest.mark.parametrize(
    ("template", "prefix", "later"),
    [
        (f"{{{{topic}}}}/{_FILE}", "kafka/", "s3://lake/kafka/topic_id=<id>/"),
        (f"{{{{topic}}}}/{_FILE}", "", "s3://lake/topic_id=<id>/"),
        (f"dt={{{{date:yyyy}}}}/{_FILE}", "kafka/", "s3://lake/kafka/topic_id=<id>/"),
        (f"all/{_FILE}", "a/b-", "s3://lake/a/b-topic_id=<id>/"),
        # The table has all that is below the prefix.
        (_FILE, "kafka/", None),
        (_FILE, "a/b-", None),
    ],
)
def test_a_later_life_of_a_topic_is_said_to_be_elsewhere(
    template: str, prefix: str, later: str | None
) -> None:
    """Of a topic that was deleted and made again; with the prefix of its objects they have a table, too."""
    options = {"file.name.template": template, "aws.s3.prefix": prefix}
    table = _table(options)
    found = [note for note in table.notes() if "made again" in note]

    if later is None:
        assert found == []
    else:
        assert [later in note for note in found] == [True]
        own = f"{prefix}topic_id=x1/"
        again = _table({**options, "aws.s3.prefix": own}).partitions
        assert not again.later
        assert (again.location, again.template) == (
            table.partitions.location.replace(f"lake/{prefix}", f"lake/{own}"),
            table.partitions.template.replace(f"lake/{prefix}", f"lake/{own}"),
        )


def test_repair_wants_directories_of_hive() -> None:
    """And finds partitions without projection."""
    hive = "{{topic}}/region={{value:id}}/{{partition}}-{{start_offset}}{{extension}}"
    table = _table({"file.name.template": hive, "value.converter": _JSON}, is_repaired=True)

    create, repair = ddl(table)
    assert "projection" not in create
    assert repair == "MSCK REPAIR TABLE `lake`.`orders`"
    assert len(_statements(create)) == 1
    with pytest.raises(NotQueryable, match="not all name=value"):
        _table({}, is_repaired=True)
    flat = "{{topic}}-{{partition}}-{{start_offset}}{{extension}}"
    with pytest.raises(NotQueryable, match="no directories of partitions"):
        _table({"file.name.template": flat}, is_repaired=True)


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        (
            "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
            {"year": "string", "month": "int", "day": "int", "hour": "int"},
        ),
        ("'dt'=YYYY-MM-dd/'hour'=HH", {"dt": "string", "hour": "int"}),
        ("'year'=YYYY", {"year": "string"}),
        ("'raw'/'year'=YYYY", {"year": "string"}),
    ],
)
def test_directories_of_a_date_are_columns_of_their_own(path: str, columns: dict[str, str]) -> None:
    """Confluent's example goes through four of them; MSCK REPAIR finds each by its name."""
    template = f"{{{{topic}}}}/{{{{joda:{path}}}}}/{{{{partition}}}}+{{{{start_offset}}}}{{{{extension}}}}"
    table = _table({"file.name.template": template, "value.converter": _JSON}, is_repaired=True)

    assert {each.name: each.type for each in table.partitions.columns} == columns
    assert table.partitions.location.startswith("s3://lake/orders/")


def test_a_directory_with_the_name_of_a_member_is_its_column() -> None:
    """As Confluent's FieldPartitioner names them: the rows' own column of that name is left out."""
    hive = "{{topic}}/value={{value:id}}/{{partition}}-{{start_offset}}{{extension}}"
    table = _table({"file.name.template": hive, "value.converter": _JSON}, is_repaired=True)

    assert [each.name for each in table.partitions.columns] == ["value"]
    assert "value" not in [each.name for each in table.form.columns]
    assert table.form.columns, "the others are left"
    _parsed(table)
    alone = {"file.name.template": hive, "value.converter": _JSON, "output.fields": "value"}
    with pytest.raises(NotQueryable, match="no member but those of directories"):
        _table(alone, is_repaired=True)


def test_a_directory_with_the_name_of_a_column_that_has_a_place_is_refused() -> None:
    """Without one of its columns, csv would be read into the wrong ones."""
    hive = "{{topic}}/value={{value:id}}/{{partition}}-{{start_offset}}{{extension}}"
    with pytest.raises(NotQueryable, match=r"have the names of columns \(value\)"):
        _table(
            {"file.name.template": hive, "value.converter": _JSON, "output.format": "csv"}, is_repaired=True
        )


def test_a_directory_of_a_date_without_a_name_is_not_found() -> None:
    """Nor one that has more than its date."""
    for path in ("YYYY/MM", "'year'=YYYY'x'/'month'=MM"):
        template = (
            f"{{{{topic}}}}/{{{{joda:{path}}}}}/{{{{partition}}}}+{{{{start_offset}}}}{{{{extension}}}}"
        )
        with pytest.raises(NotQueryable, match="not all name=value"):
            _table({"file.name.template": template, "value.converter": _JSON}, is_repaired=True)


def test_values_that_differ_are_wider_columns() -> None:
    """What several records have is merged, and names that no type takes make a string of the object."""
    table = _table(
        {"output.fields": "value", "output.envelope": False, "value.converter": _JSON},
        [
            {"value": {"n": 1, "list": [1], "either": 1, "in": {"a-b": 1}, "Or-Der": 1, "big": 2**70}},
            {"value": {"n": 1.5, "list": [None, 2.5], "either": "x", "late": True}},
        ],
    )

    assert _columns(table) == {
        "n": "double",
        "list": "array<double>",
        "either": "string",
        "in": "string",
        "or_der": "bigint",
        "big": "double",
        "late": "boolean",
    }
    assert table.form.serde_options["mapping.or_der"] == "Or-Der"
    _parsed(table)


def test_the_command_contacts_nothing_with_a_record(tmp_path: Any) -> None:
    """And prints what it is asked for."""
    file = tmp_path / "archive.json"
    file.write_text(json.dumps({"name": "archive", "bootstrap.servers": "127.0.0.1:1", **_BASE}))
    record = ["--record", json.dumps(_RECORD)]

    text = CliRunner().invoke(app, ["athena", str(file), *record])
    table = CliRunner().invoke(app, ["athena", str(file), *record, "--glue", "table"])
    crawler = CliRunner().invoke(app, ["athena", str(file), *record, "--glue", "crawler", "--role", "r"])

    assert text.exit_code == table.exit_code == crawler.exit_code == 0, text.output
    assert len(_statements(text.stdout)) == 1
    assert json.loads(table.stdout)["TableInput"]["TableType"] == "EXTERNAL_TABLE"
    assert json.loads(crawler.stdout)["Targets"] == {"S3Targets": [{"Path": "s3://lake/orders/"}]}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--topic", "others"], "--topic others is not one of the sink's topics"),
        (["--glue", "crawler"], "--glue crawler needs --role"),
        (["--role", ""], "--role is of --glue crawler"),
        (["--glue", "table", "--role", "r"], "--role is of --glue crawler"),
        (["--record", "{"], "is no record"),
    ],
)
def test_a_bad_argument_is_a_sentence(tmp_path: Any, arguments: list[str], sentence: str) -> None:
    """Before anything is asked."""
    file = tmp_path / "archive.json"
    file.write_text(json.dumps({"name": "archive", "bootstrap.servers": "127.0.0.1:1", **_BASE}))
    found = CliRunner().invoke(app, ["athena", str(file), *arguments])
    assert sentence in str(found.exception)
