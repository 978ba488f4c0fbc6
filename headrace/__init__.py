"""Headrace from Python: what `headrace run` does, for a program instead of a shell.

    import headrace

    headrace.run({"name": "archive", "topics": "orders", ..})      # until SIGTERM, as the command

    with headrace.Connector("archive.json") as connector:          # next to what else the program does
        print(connector.status()["role"])

    frame.writeStream.foreachBatch(headrace.Connector(config).foreach_batch)      # a query of Spark

`headrace.quix` has the names of Quix Streams' file sink. Importing it loads no client and no Spark.
"""

from typing import TYPE_CHECKING, Any

from headrace.model.errors import Exit, HeadraceError, InvalidConfiguration

if TYPE_CHECKING:
    from headrace.connector import Connector, run

__all__ = ["Connector", "Exit", "HeadraceError", "InvalidConfiguration", "run"]


def __getattr__(name: str) -> Any:
    """The names that need the service, which is imported with the first of them."""
    if name in {"Connector", "run"}:
        from headrace import connector

        return getattr(connector, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
