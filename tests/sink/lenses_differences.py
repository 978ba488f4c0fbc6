"""Where our objects differ from Lenses' on purpose: by archive and object, with the reason.

Values are as rows: what stands in theirs, and what stands in ours in its place.
"""

from typing import Final

_NEWLINES: Final = (
    "Lenses writes a line feed in a text as a backslash and n, which nobody can undo; "
    "output.newlines=escaped does the same"
)

WITH_NEWLINES: Final = {
    "lenses-json_string": _NEWLINES,
    "lenses-text": _NEWLINES,
}
"""Archives that are Lenses' to the byte with `output.newlines=escaped`, and differ without."""

FAILED: Final = {
    "lenses-FAIL_bytes_null": "null_value",
    "lenses-FAIL_envelope_avro_bytes_hyphen": "schema_unfit",
    "lenses-FAIL_envelope_avro_hyphen": "schema_unfit",
    "lenses-FAIL_json_null": "null_value",
    "lenses-FAIL_partitionby_null_key": "null_key",
}
"""Why a partition of theirs stops in ours as well: at the first record that the format cannot hold."""

OTHERWISE_CUT: Final = {
    "lenses-parquet_default": (
        "objects of this archive closed by the wall clock (flush.interval=8) after one record or three: what "
        "had come until then depended on the moment. Lists have three levels here, as Parquet's page asks for"
    ),
}
"""Archives whose rows are the same in other objects."""
