"""A table of Athena: its DDL, and the JSON by which Glue makes it or a crawler of it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ingest.checks.athena.columns import NotQueryable
from ingest.checks.athena.files import FileForm
from ingest.checks.athena.partitions import Partitions

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
                f"Directories of {self.name!r} are not all name=value, which is what MSCK REPAIR TABLE "
                "finds: leave --repair out, for partition projection, or write such names."
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
        if injected := self.partitions.injected if not self.is_repaired else ():
            wanted = " AND ".join(f"{name} = '..'" for name in injected)
            yield f"A query has to say WHERE {wanted}, with the value as it is in names."


def ddl(table: Table) -> list[str]:
    """The statements, in their order."""
    form, partitions = table.form, table.partitions
    parts = [f"CREATE EXTERNAL TABLE IF NOT EXISTS {_name(table.database)}.{_name(table.name)} ("]
    parts.append(",\n".join(f"  {_name(column.name)} {_quoted(column.type)}" for column in form.columns))
    parts.append(")")
    if partitions.columns:
        inside = ", ".join(f"{_name(column.name)} {column.type}" for column in partitions.columns)
        parts.append(f"PARTITIONED BY ({inside})")
    parts.append(f"ROW FORMAT SERDE {_text(form.serde)}")
    if form.serde_options:
        parts.append(f"WITH SERDEPROPERTIES ({_pairs(form.serde_options)})")
    stored = (
        form.stored_as
        or f"INPUTFORMAT {_text(form.input_format)}\n  OUTPUTFORMAT {_text(form.output_format)}"
    )
    parts.append(f"STORED AS {stored}")
    parts.append(f"LOCATION {_text(partitions.location)}")
    if options := table.options:
        parts.append(f"TBLPROPERTIES ({_pairs(options)})")
    statements = ["\n".join(parts)]
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
    return ",\n  ".join(f"{_text(name)}={_text(text)}" for name, text in options.items())


def _name(name: str) -> str:
    """A name in backticks, so that reserved words are names too."""
    return f"`{name.replace('`', '')}`"


def _quoted(kind: str) -> str:
    """A type whose members are in backticks, too."""
    return _MEMBER.sub(r"`\1`:", kind)


def _text(text: str) -> str:
    """A text of Hive's: its backslashes and quotes are escaped, and what is no printed sign."""
    shown = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + "".join(char if char >= " " else f"\\{ord(char):03o}" for char in shown) + "'"
