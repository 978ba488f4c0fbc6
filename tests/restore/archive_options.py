"""What an operator writes to restore each archive, from the configuration of the sink that wrote it."""

from typing import Final

from headrace.formats.content_kind import RowFormat
from headrace.options.choices import RestoreOptions
from tests.headrace.vendors.archive import Archive
from tests.headrace.vendors.restoring import KCQL_COLUMNS, options_of, wanted_format

# How the operator says that rows are lines of Aiven's csv.
_SPELLED: Final = {RowFormat.LINES: "csv"}
# The archives in whose bucket no key can be read without being told more.
_MORE: Final[dict[str, dict[str, str]]] = {
    "aiven-key_only": {"topic": "changelog"},
    "aiven-prefix_legacy_bytes_none": {"aws.s3.prefix": "legacy-"},
    "lenses-indexes_name": {"layout.indexes": ".indexes/,.temp-upload/,logs/indexes/"},
    "lenses-csv": {"csv.header": "false", "csv.columns": ",".join(KCQL_COLUMNS)},
}


def restore_config(archive: Archive) -> dict[str, str | None]:
    """The options of Headrace that restore the archive; None leaves one of the test's own out."""
    rows = options_of(archive)
    wanted = wanted_format(archive)
    config: dict[str, str | None] = {
        "topic": None,
        "file.name.template": archive.config.get("file.name.template"),
        "input.layout": archive.vendor,
        "tombstone.encoded.partition": archive.config.get("tombstone.encoded.partition"),
        "input.format": None if wanted is None else _SPELLED.get(wanted, wanted.value),
        "restore.value": rows.value.value,
        "restore.key": rows.key.value,
        "restore.header": rows.header.value,
        "restore.envelope": rows.envelope.value,
        "format.output.fields": ",".join(rows.csv_fields),
        "format.output.fields.value.encoding": rows.csv_encoding.value,
        "format.bytearray.separator": archive.config.get("format.bytearray.separator"),
    }
    plain = RestoreOptions()
    if rows.csv_fields == plain.csv_fields:
        config["format.output.fields"] = None
    return config | _MORE.get(archive.name, {})
