"""One Spark session for all tests of what runs on Spark, and a driver whose steps a test scripts."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from localstack.ports import HOST, free_port
from spark.session import build_context, stop_context
from spark.slots import ContextJobs
from tests.spark.scripted_driver import ScriptedDriver
from tests.support.kafka import TopicFactory


@pytest.fixture(scope="session")
def spark_session(for_the_group: ExitStack) -> SparkSession:
    """A local session with two cores; `test_connect.py` has its JVM be a Connect server as well."""
    conf = {
        "spark.master": "local[2]",
        # No plan here runs long enough to be compiled.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # What the archive has no classes of (a query) is read from Spark's own jars: a sixth of that CPU.
        "spark.driver.extraJavaOptions": "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(free_port()),
    }
    with pytest.MonkeyPatch.context() as patch:
        # Of what clients of a Connect server send, workers are the server's: its JVM looks for them here.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # Nor have they what is in the folder of the JVM, which would come before what a client sends.
        patch.setenv("PYTHONSAFEPATH", "1")
        context = build_context(conf, name="tests")
    for_the_group.callback(stop_context, context)
    return SparkSession(context)


@pytest.fixture
def driver(
    spark_session: SparkSession, bucket: str, topic: TopicFactory, kafka_bootstrap: str, s3_endpoint: str
) -> Iterator[Callable[..., ScriptedDriver]]:
    """A factory of scripted drivers over a bucket, an output topic and a ledger topic of their own."""
    made: list[ScriptedDriver] = []

    def make(
        *,
        linger_seconds: float = 30.0,
        partitions: int = 1,
        topic_config: Mapping[str, str] | None = None,
        **options: str,
    ) -> ScriptedDriver:
        made.append(
            ScriptedDriver(
                ContextJobs(spark_session.sparkContext),
                bucket=bucket,
                topic=topic("out", partitions=partitions, config=topic_config),
                ledger=topic("ledger", config={"cleanup.policy": "compact"}),
                bootstrap=kafka_bootstrap,
                endpoint=s3_endpoint,
                linger_seconds=linger_seconds,
                options=options,
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()
