"""The end of `make demo`: the flights once more, as a stream of Spark with columns, counted by carrier.

A process of its own: its Spark comes up while connectors work, and it begins when it is told to.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.flights import ROWS
from bench.stage import Stage, StageError
from localstack.steps import step

_CARRIERS = 5
_SECONDS = 180
_LINES = 15


class SparkQuery:
    """`spark.readStream.format("headrace")` in a process that waits for its `begin`."""

    def __init__(self, on_stage: Stage, *, bucket: str, prefix: str = "flights/") -> None:
        options = on_stage.configuration(rows="columns", state__path=on_stage.folder / "frames")
        wanted = ("aws.", "rows", "state.path")
        asked = {
            "options": {name: str(value) for name, value in options.items() if name.startswith(wanted)},
            "path": f"s3://{bucket}/{prefix}",
            "checkpoint": str(on_stage.folder / "checkpoint"),
        }
        self._asked = json.dumps(asked)
        self._log = on_stage.folder / "spark.log"
        self._process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        """Have its Spark come up, and wait for nothing."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.demo_spark", self._asked],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def begin(self) -> None:
        """Have it read what the bucket has."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()

    def show(self) -> bool:
        """Wait for its end and print its table; True when all rows are there. StageError."""
        assert self._process is not None
        with step("demo", "Spark: readStream of the flights, begun beside the way back"):
            try:
                said, _ = self._process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise StageError(f"Spark's query took more than {_SECONDS} s:\n{self._tail()}") from error
        if self._process.returncode:
            raise StageError(f"Spark's query ended with {self._process.returncode}:\n{self._tail()}")
        counted = json.loads(said)
        table = Table("carrier", "flights", "mean delay", title="A stream of Spark")
        for carrier, flights, delay in counted[:_CARRIERS]:
            table.add_row(carrier, f"{flights:,}", f"{delay:.1f} min")
        rows: int = sum(flights for _, flights, _ in counted)
        table.add_row("all", f"{rows:,} of {ROWS:,}", "")
        Console().print(table)
        return rows == ROWS

    def close(self) -> None:
        """End it, wherever it is; its JVM ends with it."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LINES:])


@contextmanager
def spark_query(on_stage: Stage, *, bucket: str) -> Iterator[SparkQuery]:
    """The query, not launched; gone afterwards."""
    query = SparkQuery(on_stage, bucket=bucket)
    try:
        yield query
    finally:
        query.close()


def _flights(spark: Any, options: Mapping[str, str], path: str) -> Any:
    """The stream, of the columns that are counted: so nothing has to be in the bucket yet."""
    reader = spark.readStream.format("headrace").schema("carrier string, dep_delay double")
    return reader.options(**options).load(path)


def _counted(flights: Any, checkpoint: Path) -> list[Any]:
    """Flights and mean delay of each carrier, the largest first."""
    from pyspark.sql import functions as f

    query = (
        flights.groupBy("carrier")
        .agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("delay"))
        .writeStream.format("memory")
        .queryName("carriers")
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    counted: list[Any] = flights.sparkSession.table("carriers").orderBy(f.desc("flights")).collect()
    return counted


def main() -> int:
    """Bring up a session, wait for a line, and print each carrier with its flights and mean delay as JSON."""
    import structlog
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    import headrace.spark
    from spark.session import build_context, stop_context

    asked = json.loads(sys.argv[1])
    # Its warnings of itself are no part of the show.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    context = build_context({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}, name="demo")
    try:
        spark = SparkSession(context)
        headrace.spark.register(spark)
        flights = _flights(spark, asked["options"], asked["path"])
        if not sys.stdin.readline():
            return 1
        counted = _counted(flights, Path(asked["checkpoint"]))
    except PySparkException as error:
        # Its words are the JVM's, which ends now.
        print(error, file=sys.stderr)
        return 1
    finally:
        stop_context(context)
    print(json.dumps([[row.carrier, row.flights, row.delay] for row in counted]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
