"""External tables of Athena over what a sink writes: columns, partitions, DDL. Pure.

table_columns      the types of columns, from Arrow's and Avro's schemas and from JSON
partition_columns  the directories of a name template as partition columns, with their projection
table              a table: what Athena reads, by which SerDe, the DDL, and the JSON that Glue takes
"""

from ingest.checks.athena.partition_columns import Partitions, partitions_of
from ingest.checks.athena.table import SampleObject, Table, crawler_input, ddl, file_form, table_input
from ingest.checks.athena.table_columns import Column, NotQueryable

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
