"""KCQL as Lenses' sinks take it: `INSERT INTO bucket:prefix SELECT * FROM topic ..`, read and written. Pure.

statements  what a text says, and its canonical form
parser      texts to statements; tokens cuts them, kcql_error points at a mistake
"""

from ingest.kcql.kcql_error import KcqlError
from ingest.kcql.parser import read_kcql
from ingest.kcql.statements import FieldPart, PartitionField, Property, Statement

__all__ = ["FieldPart", "KcqlError", "PartitionField", "Property", "Statement", "read_kcql"]
