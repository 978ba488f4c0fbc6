"""A program whose query a test kills: rows of a bucket into Parquet by batch, or into a bucket."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import headrace.spark


def main(given: dict[str, Any]) -> None:
    """Run the query over what is there; each batch takes a moment, so that it can be killed in its middle."""
    builder = SparkSession.builder
    builder = builder.remote(given["remote"]) if "remote" in given else builder.master(given["master"])
    for name, value in given["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    headrace.spark.register(spark)
    sink = Path(given["sink"])

    def keep(batch: DataFrame, number: int) -> None:
        (sink / f"begun-{number}-{os.getpid()}").touch()
        batch.write.mode("overwrite").parquet(str(sink / f"batch={number}"))

    def keep_in_delta(batch: DataFrame, number: int) -> None:
        sys.path.append(given["packages"])
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        table = str(sink / "delta")
        done = DeltaTable(table).transaction_version("rows") if DeltaTable.is_deltatable(table) else None
        if done is not None and done >= number:
            (sink / f"passed-over-{number}").touch()
            return
        properties = CommitProperties(app_transactions=[Transaction("rows", number)])
        write_deltalake(table, batch.toArrow(), mode="append", commit_properties=properties)
        if number == given["dies_in"]:
            # The table has the batch, and Spark does not know.
            os.kill(os.getpid(), signal.SIGKILL)

    frame = spark.readStream.format("headrace").options(**given["options"]).load()
    if "writes" in given:
        frame = frame.selectExpr(
            "'numbers' topic",
            "cast(n % 2 as int) partition",
            "n offset",
            "cast(cast(n as string) as binary) value",
        ).repartition(2, "partition")
    writer = frame.writeStream.option("checkpointLocation", given["checkpoint"]).trigger(availableNow=True)
    if "writes" in given:
        query = writer.format("headrace").options(**given["writes"]).start()
    elif given.get("is_plain"):
        query = writer.format("parquet").option("path", str(sink / "plain")).start()
    else:
        query = writer.foreachBatch(keep_in_delta if "packages" in given else keep).start()
    query.awaitTermination()
    sys.stdout.write(json.dumps({"error": None if query.exception() is None else str(query.exception())}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
