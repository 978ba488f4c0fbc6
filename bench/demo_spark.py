"""The end of `make demo`: the flights once more, as a stream of Spark with columns, counted by carrier."""

import logging
from pathlib import Path
from typing import Any

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

import headrace.spark
from bench.flights import ROWS
from bench.stage import Stage
from localstack.steps import step
from spark.session import build_context, stop_context

_CARRIERS = 5


def play_spark(on_stage: Stage, *, bucket: str, prefix: str = "flights/") -> bool:
    """Read the flights by `format("headrace")` into a table of the console; True when all rows are there."""
    options = on_stage.configuration(rows="columns", state__path=on_stage.folder / "frames")
    given = {
        name: str(value) for name, value in options.items() if name.startswith(("aws.", "rows", "state.path"))
    }
    # Its warnings of itself are no part of the show.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with step("demo", "Spark: readStream of the flights"):
        context = build_context(
            {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}, name="demo"
        )
        spark = SparkSession(context)
        try:
            counted = _counted(spark, given, f"s3://{bucket}/{prefix}", on_stage.folder / "checkpoint")
        finally:
            stop_context(context)
    table = Table("carrier", "flights", "mean delay", title="A stream of Spark")
    for row in counted[:_CARRIERS]:
        table.add_row(row.carrier, f"{row.flights:,}", f"{row.delay:.1f} min")
    rows: int = sum(row.flights for row in counted)
    table.add_row("all", f"{rows:,} of {ROWS:,}", "")
    Console().print(table)
    return rows == ROWS


def _counted(spark: Any, options: dict[str, str], path: str, checkpoint: Path) -> list[Any]:
    """Flights and mean delay of each carrier, the largest first."""
    headrace.spark.register(spark)
    flights = spark.readStream.format("headrace").options(**options).load(path)
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
    counted: list[Any] = spark.table("carriers").orderBy(f.desc("flights")).collect()
    return counted
