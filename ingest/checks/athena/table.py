"""A table of Athena over a sink's objects: those it reads, by which reader, the DDL, and Glue's JSON."""

import io
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.options.choices import Compression
from headrace.options.sink_settings import OutputFormat, OutputSettings
from ingest.checks.athena.partition_columns import Partitions
from ingest.checks.athena.table_columns import (
    Column,
    NotQueryable,
    columns_of_arrow,
    columns_of_avro,
    columns_of_json,
)

_TEXT_IN: Final = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUT: Final = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_PARQUET: Final = "org.apache.hadoop.hive.ql.io.parquet"
_AVRO: Final = "org.apache.hadoop.hive.ql.io.avro.AvroContainer"
# By the name of a text object Athena knows how it is compressed; of these two framings Hadoop has its own.
_TEXT_SUFFIXES: Final = {
    Compression.NONE: "",
    Compression.GZIP: ".gz",
    Compression.BZIP2: ".bz2",
    Compression.ZSTD: ".zst",
}
_CSV_NOTE: Final = (
    "Athena ends a row of csv at every line feed, one within quotes too, and drops backslashes: values that "
    "have them need parquet or jsonl."
)
_TEXT_FORMATS: Final = frozenset({OutputFormat.JSONL, OutputFormat.CSV, OutputFormat.TEXT})


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleObject:
    """An object as the sink writes it: `body` whole, with text formats not compressed.

    `head` is what such an object begins with before its first row. `csv_names` are the columns of csv.
    """

    key: str
    body: bytes
    head: bytes = b""
    csv_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """How objects are read. `stored_as` is the DDL's words for the formats in and out."""

    columns: tuple[Column, ...]
    serde: str
    stored_as: str
    input_format: str
    output_format: str
    serde_options: Mapping[str, str] = field(default_factory=dict)
    table_options: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    finds_by_name: bool = False
    """A column that the table lacks leaves the others where they are."""

    def without(self, names: Collection[str]) -> "FileForm":
        """The same without some columns, where others are found without them."""
        if not self.finds_by_name:
            return self
        left = tuple(column for column in self.columns if column.name.lower() not in names)
        return replace(self, columns=left)


def file_form(output: OutputSettings, sample: SampleObject) -> FileForm:
    """How objects such as this one are read; NotQueryable where Athena cannot."""
    _refuse_side_objects(output)
    if output.format in _TEXT_FORMATS:
        _refuse_packed_text(output, sample.key)
    match output.format:
        case OutputFormat.PARQUET:
            return _parquet(sample)
        case OutputFormat.AVRO:
            return _avro(output, sample)
        case OutputFormat.JSONL:
            return _jsonl(sample)
        case OutputFormat.CSV:
            return _csv(output, sample)
        case OutputFormat.TEXT:
            return _text(output)
        case OutputFormat.JSON:
            raise NotQueryable(
                "output.format=json writes one array an object, and Athena reads one value a line: set "
                "output.format=jsonl."
            )
        case OutputFormat.BYTES:
            raise NotQueryable(
                "output.format=bytes has nothing that tells columns or rows: set output.format=jsonl, avro "
                "or parquet."
            )


def _refuse_side_objects(output: OutputSettings) -> None:
    if output.sidecars.formats:
        raise NotQueryable(
            "Objects of keys or headers are next to those of values, and Athena reads every object of a "
            "directory as a row's: write without sidecars, or copy the values elsewhere."
        )


def _refuse_packed_text(output: OutputSettings, key: str) -> None:
    suffix = _TEXT_SUFFIXES.get(output.compression)
    if suffix is None:
        raise NotQueryable(
            f"file.compression.type={output.compression} is framed otherwise than Athena reads it in text: "
            "set gzip or zstd."
        )
    if suffix and not key.endswith(suffix):
        raise NotQueryable(
            f"Names such as {key!r} do not end with {suffix}, by which Athena knows how text is compressed: "
            f"end file.name.template with {{{{extension}}}} or {suffix}."
        )


def _parquet(sample: SampleObject) -> FileForm:
    try:
        schema = pq.read_schema(pa.BufferReader(sample.body))
    except pa.ArrowInvalid as error:
        raise NotQueryable(
            "The whole Parquet file is compressed once more, which Athena does not read: set "
            "file.compression.type=none."
        ) from error
    return FileForm(
        columns=columns_of_arrow(schema),
        serde=f"{_PARQUET}.serde.ParquetHiveSerDe",
        stored_as="PARQUET",
        input_format=f"{_PARQUET}.MapredParquetInputFormat",
        output_format=f"{_PARQUET}.MapredParquetOutputFormat",
        finds_by_name=True,
    )


def _avro(output: OutputSettings, sample: SampleObject) -> FileForm:
    if output.compression is Compression.XZ or output.rows.avro_codec is Compression.XZ:
        raise NotQueryable("Athena does not read Avro compressed by xz: set snappy or gzip (deflate).")
    text = _avro_schema(sample.body)
    return FileForm(
        columns=columns_of_avro(json.loads(text)),
        serde="org.apache.hadoop.hive.serde2.avro.AvroSerDe",
        stored_as="AVRO",
        input_format=f"{_AVRO}InputFormat",
        output_format=f"{_AVRO}OutputFormat",
        serde_options={"avro.schema.literal": text},
    )


def _avro_schema(body: bytes) -> str:
    import fastavro

    try:
        with io.BytesIO(body) as file:
            schema: Any = fastavro.reader(file).metadata["avro.schema"]
    except (ValueError, KeyError) as error:
        raise NotQueryable(
            "The whole Avro file is compressed, which Athena does not read: set file.compression.type=none "
            "and compress inside (output.avro.codec)."
        ) from error
    return str(schema)


def _jsonl(sample: SampleObject) -> FileForm:
    rows = [json.loads(line) for line in sample.body.splitlines() if line]
    if not all(isinstance(row, Mapping) for row in rows):
        raise NotQueryable(
            "Lines are bare values and no objects, which have no columns: set output.envelope=true, or "
            "output.format=text for a table of one column."
        )
    columns = columns_of_json(rows)
    renamed = {
        f"mapping.{safe}": column.name for column in columns if (safe := _safe(column.name)) != column.name
    }
    return FileForm(
        columns=tuple(Column(_safe(column.name), column.type) for column in columns),
        serde="org.openx.data.jsonserde.JsonSerDe",
        stored_as="",
        input_format=_TEXT_IN,
        output_format="org.apache.hadoop.hive.ql.io.IgnoreKeyTextOutputFormat",
        serde_options={"case.insensitive": "true" if not renamed else "false", **renamed},
        notes=("Columns are those of the sample: one that came later is missing here.",),
        finds_by_name=True,
    )


def _safe(name: str) -> str:
    """A name that a column can have: of letters, digits and _, in lower case as Athena shows it."""
    text = "".join(char if char.isalnum() and char.isascii() else "_" for char in name.lower())
    return text or "_"


def _csv(output: OutputSettings, sample: SampleObject) -> FileForm:
    return FileForm(
        columns=tuple(Column(name, "string") for name in sample.csv_names),
        serde="org.apache.hadoop.hive.serde2.OpenCSVSerde",
        stored_as="",
        input_format=_TEXT_IN,
        output_format=_TEXT_OUT,
        serde_options={
            "separatorChar": output.csv.delimiter.decode(),
            "quoteChar": output.csv.quote.decode(),
            "escapeChar": "\\",
        },
        table_options={"skip.header.line.count": "1"} if sample.head else {},
        notes=(_CSV_NOTE,),
    )


def _text(output: OutputSettings) -> FileForm:
    if output.separator not in {b"\n", b"\r\n"}:
        raise NotQueryable(
            "Athena ends a row of text at a line feed: set output.separator to one, or output.format=jsonl."
        )
    return FileForm(
        columns=(Column("line", "string"),),
        serde="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        stored_as="",
        input_format=_TEXT_IN,
        output_format=_TEXT_OUT,
        # No text has this, so a line is one column.
        serde_options={"field.delim": "\001", "serialization.format": "\001"},
        notes=("A value that has a line feed is two rows.",),
    )


_MEMBER: Final = re.compile(r"(?<=[<,])([A-Za-z_][A-Za-z0-9_]*):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`is_repaired`: partitions are found by MSCK REPAIR TABLE, and not worked out from names."""

    database: str
    name: str
    form: FileForm
    partitions: Partitions
    is_repaired: bool = False

    def __post_init__(self) -> None:
        if not self.form.columns:
            raise NotQueryable(
                f"Rows of {self.name!r} have no member but those of directories: leave --repair out."
            )
        if self.is_repaired and not self.partitions.columns:
            raise NotQueryable(f"Names of {self.name!r} have no directories of partitions: no --repair.")
        if self.is_repaired and not self.partitions.is_hive:
            if names := [each.name for each in self.partitions.columns if each.name.endswith("_dir")]:
                shared = ", ".join(name.removesuffix("_dir") for name in names)
                raise NotQueryable(
                    f"Directories of {self.name!r} have the names of columns ({shared}), and a table of this "
                    "format has each name once: leave --repair out, for partition projection."
                )
            raise NotQueryable(
                f"Directories of {self.name!r} are not all name=value, the name in lower case and no colon "
                "in the value, which is what MSCK REPAIR TABLE finds: leave --repair out, for partition "
                "projection, or write such names."
            )

    @property
    def options(self) -> dict[str, str]:
        """TBLPROPERTIES."""
        found = dict(self.form.table_options)
        columns = self.partitions.columns
        if columns and not self.is_repaired:
            found["projection.enabled"] = "true"
            for column in columns:
                found |= {f"projection.{column.name}.{key}": text for key, text in column.projection}
            found["storage.location.template"] = self.partitions.template
        return found

    def notes(self) -> Iterator[str]:
        """What a person who queries the table has to know."""
        yield from self.form.notes
        if later := self.partitions.later:
            prefix = later.removeprefix("s3://").partition("/")[2]
            yield (
                f"Once the topic was deleted and made again, its objects are below {later}, and not in this "
                f"table: aws.s3.prefix={prefix}, with another --table, prints one of them."
            )
        for name in () if self.is_repaired else self.partitions.dates_of_values:
            yield (
                f"{name} has the last ten years, and times of values may be older, or later: what is outside "
                f"no query finds, unless projection.{name}.range has all years that there are."
            )
        injected = self.partitions.injected
        if injected and self.is_repaired and self.partitions.is_plain:
            yield (
                f"Values of {', '.join(injected)} are as the data has them (file.name.values): MSCK REPAIR "
                "TABLE does not find the directories of those with : or /."
            )
        elif injected and not self.is_repaired:
            wanted = " AND ".join(f"{name} = '..'" for name in injected)
            yield f"A query has to say WHERE {wanted}, with the value as it is in names."


def ddl(table: Table) -> list[str]:
    """The statements, in their order."""
    form, partitions = table.form, table.partitions
    clauses = [f"CREATE EXTERNAL TABLE IF NOT EXISTS {_name(table.database)}.{_name(table.name)} ("]
    clauses.append(",\n".join(f"  {_name(column.name)} {_quoted(column.type)}" for column in form.columns))
    clauses.append(")")
    if partitions.columns:
        inside = ", ".join(f"{_name(column.name)} {column.type}" for column in partitions.columns)
        clauses.append(f"PARTITIONED BY ({inside})")
    clauses.append(f"ROW FORMAT SERDE {_ddl_text(form.serde)}")
    if form.serde_options:
        clauses.append(f"WITH SERDEPROPERTIES ({_pairs(form.serde_options)})")
    stored = (
        form.stored_as
        or f"INPUTFORMAT {_ddl_text(form.input_format)}\n  OUTPUTFORMAT {_ddl_text(form.output_format)}"
    )
    clauses.append(f"STORED AS {stored}")
    clauses.append(f"LOCATION {_ddl_text(partitions.location)}")
    if options := table.options:
        clauses.append(f"TBLPROPERTIES ({_pairs(options)})")
    statements = ["\n".join(clauses)]
    if table.is_repaired:
        statements.append(f"MSCK REPAIR TABLE {_name(table.database)}.{_name(table.name)}")
    return statements


def table_input(table: Table) -> dict[str, Any]:
    """What `aws glue create-table --cli-input-json` takes."""
    form = table.form
    return {
        "DatabaseName": table.database,
        "TableInput": {
            "Name": table.name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {"EXTERNAL": "TRUE", **table.options},
            "PartitionKeys": [
                {"Name": column.name, "Type": column.type} for column in table.partitions.columns
            ],
            "StorageDescriptor": {
                "Columns": [{"Name": column.name, "Type": column.type} for column in form.columns],
                "Location": table.partitions.location,
                "InputFormat": form.input_format,
                "OutputFormat": form.output_format,
                "SerdeInfo": {"SerializationLibrary": form.serde, "Parameters": dict(form.serde_options)},
            },
        },
    }


def crawler_input(table: Table, *, role: str) -> dict[str, Any]:
    """What `aws glue create-crawler --cli-input-json` takes: it finds columns and partitions by itself."""
    return {
        "Name": f"headrace-{table.name}",
        "Role": role,
        "DatabaseName": table.database,
        "Targets": {"S3Targets": [{"Path": table.partitions.location}]},
        "SchemaChangePolicy": {"UpdateBehavior": "UPDATE_IN_DATABASE", "DeleteBehavior": "LOG"},
        "RecrawlPolicy": {"RecrawlBehavior": "CRAWL_NEW_FOLDERS_ONLY"},
    }


def _pairs(options: Mapping[str, str]) -> str:
    return ",\n  ".join(f"{_ddl_text(name)}={_ddl_text(text)}" for name, text in options.items())


def _name(name: str) -> str:
    """A name in backticks, so that reserved words are names too."""
    return f"`{name.replace('`', '')}`"


def _quoted(kind: str) -> str:
    """A type whose members are in backticks, too."""
    return _MEMBER.sub(r"`\1`:", kind)


def _ddl_text(text: str) -> str:
    """A text of Hive's: its backslashes and quotes are escaped, and what is no printed sign."""
    shown = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(char if char >= " " else f"\\{ord(char):03o}" for char in shown) + "'"
