"""Headrace as a data source of Spark.

    import headrace.spark

    headrace.spark.register(spark)
    flights = spark.readStream.format("headrace").option("state.path", ..).load("s3://bucket/flights/")

Where Headrace is installed for the Python that Spark runs, `format("headrace")` is known without `register`.
"""

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

# What PySpark runs where neither PYSPARK_PYTHON nor spark.pyspark.python names another.
_DEFAULT_PYTHON: Final = "python3"


def register(spark: "SparkSession") -> None:
    """Have this session, of Spark Connect too, know `format("headrace")`.

    Where everything runs on this machine and the session names no Python, its processes run this one. They
    import the PySpark that is installed, as to compile Spark's archive of it takes each a second.
    """
    from spark.frames.source import HeadraceSource

    _set_up_processes(spark)
    spark.dataSource.register(HeadraceSource)


def _set_up_processes(spark: "SparkSession") -> None:
    from spark.installed.sitecustomize import FOLDER

    # A session of Connect has no context; its server has a Python of its own.
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return
    if context.pythonExec == _DEFAULT_PYTHON:
        context.pythonExec = sys.executable
    given = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    context.environment["PYTHONPATH"] = os.pathsep.join(
        [FOLDER, *(one for one in given if one and one != FOLDER)]
    )
