"""External tables of Athena over what a sink writes: columns, partitions, DDL. Pure.

columns     the types of columns, from Arrow's and Avro's schemas and from JSON
partitions  the directories of a name template as partition columns, with their projection
files       what of formats and compressions Athena reads, and by which SerDe
table       a table: its DDL, and the JSON that Glue takes
"""

from ingest.checks.athena.columns import Column, NotQueryable
from ingest.checks.athena.files import SampleObject, file_form
from ingest.checks.athena.partitions import Partitions, partitions_of
from ingest.checks.athena.table import Table, crawler_input, ddl, table_input

__all__ = [
    "Column",
    "NotQueryable",
    "Partitions",
    "SampleObject",
    "Table",
    "crawler_input",
    "ddl",
    "file_form",
    "partitions_of",
    "table_input",
]
