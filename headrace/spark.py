"""Headrace as a data source of Spark.

    import headrace.spark

    headrace.spark.register(spark)
    flights = spark.readStream.format("headrace").option("state.path", ..).load("s3://bucket/flights/")

Where Headrace is installed for the Python that Spark runs, `format("headrace")` is known without `register`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Have this session, of Spark Connect too, know `format("headrace")`."""
    from spark.frames.source import HeadraceSource

    spark.dataSource.register(HeadraceSource)
