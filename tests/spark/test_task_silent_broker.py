"""A task whose broker falls silent in the middle of a transaction: what nobody acknowledged is in doubt."""

import pytest
from pyspark.sql import SparkSession

from headrace.model.slot_protocol import BatchOutcome
from spark.slots import BatchCommitted, BatchFinished, ContextJobs, SlotEnded
from tests.spark.scripted_driver import ScriptedDriver
from tests.support import kafka
from tests.support.silence import silent

pytestmark = [pytest.mark.parts, pytest.mark.long]


def test_an_abort_that_nobody_acknowledges_leaves_the_batch_in_doubt(
    spark_session: SparkSession, bucket: str, s3_endpoint: str, own_broker: kafka.BrokerFactory
) -> None:
    """Void, fence, read: to call it clean would be to say what only the ledger knows."""
    broker = own_broker()
    one = ScriptedDriver(
        ContextJobs(spark_session.sparkContext),
        bucket=bucket,
        topic=kafka.new_topic("out", bootstrap=broker.bootstrap),
        ledger=kafka.new_topic("ledger", config={"cleanup.policy": "compact"}, bootstrap=broker.bootstrap),
        bootstrap=broker.bootstrap,
        endpoint=s3_endpoint,
        linger_seconds=30.0,
        options={
            "producer_override_transaction_timeout_ms": "6000",
            "transaction_boundary_interval_ms": "200",
            "max_bytes_per_second": "3000000",
        },
    )
    try:
        rows = b"".join(b'{"row":%d,"text":"%s"}\n' % (number, b"x" * 80) for number in range(400_000))
        found = one.put("slow", rows)
        one.ready()
        assert one.slot_pool.grant(0, one.batch(one.split(found)))
        while not one.expect(BatchCommitted).committed.records_by_topic:
            pass
        with silent(broker):
            finished = one.expect(BatchFinished, seconds=180).finished
            assert finished.outcome is BatchOutcome.UNKNOWN
            assert not one.expect(SlotEnded, seconds=60).clean
    finally:
        one.close()
