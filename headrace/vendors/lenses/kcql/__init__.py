"""KCQL as Lenses' sinks take it: `INSERT INTO bucket:prefix SELECT * FROM topic ..`, read and written. Pure.

statements  what a text says, and its canonical form
parser      texts to statements; tokens cuts them, kcql_error points at a mistake
"""

from headrace.vendors.lenses.kcql.kcql_error import KcqlError
from headrace.vendors.lenses.kcql.parser import read_kcql, read_source_kcql
from headrace.vendors.lenses.kcql.statements import FieldPart, PartitionField, Property, Statement

__all__ = [
    "FieldPart",
    "KcqlError",
    "PartitionField",
    "Property",
    "Statement",
    "read_kcql",
    "read_source_kcql",
]
