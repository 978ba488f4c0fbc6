"""Headrace from Python: what `headrace run` does, for a program instead of a shell.

    import headrace

    headrace.run({"name": "archive", "topics": "orders", ..})      # until SIGTERM, as the command

    with headrace.Connector("archive.json") as connector:          # beside what else the program does
        print(connector.status()["role"])

    frame.writeStream.foreachBatch(headrace.Connector(config).foreach_batch)      # a query of Spark

`headrace.quix` has the names of Quix Streams' file sink. Importing it loads no client and no Spark.
"""

from headrace.connector import Connector, run
from ingest.errors import HeadraceError, InvalidConfiguration
from ingest.exits import Exit

__all__ = ["Connector", "Exit", "HeadraceError", "InvalidConfiguration", "run"]
