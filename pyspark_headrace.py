"""Where PySpark finds the format by itself: it looks into modules whose names begin with `pyspark_`."""

from spark.frames.source import HeadraceSource as DefaultSource

__all__ = ["DefaultSource"]
