"""KCQL as Lenses' sinks take it: `INSERT INTO bucket:prefix SELECT * FROM topic ..`, read and written. Pure.

statements  what a text says, its canonical form, and a mistake in it
parser      texts to statements
"""

from headrace.vendors.lenses.kcql.parser import read_kcql, read_source_kcql
from headrace.vendors.lenses.kcql.statements import (
    FieldSource,
    KcqlError,
    PartitionField,
    Property,
    Statement,
)

__all__ = [
    "FieldSource",
    "KcqlError",
    "PartitionField",
    "Property",
    "Statement",
    "read_kcql",
    "read_source_kcql",
]
