"""What a service needs of the machine: a Java and a Spark that are not too old, and soon a JVM."""

from contextlib import suppress

from headrace.model.errors import InvalidConfiguration, Unavailable
from headrace.options.settings import SparkSettings
from ingest.checks.findings.finding import Verdict
from ingest.checks.findings.machine import java_there
from ingest.checks.probes.machine import probe_java
from ingest.cli.configuration import environment
from spark.jvm import Jvm
from spark.spark_conf import conf_of
from spark.unused import refuse_unused
from spark.versions import require_spark


def require_versions(spark: SparkSettings) -> None:
    """InvalidConfiguration, one sentence, when Java or Spark is missing here, or not supported."""
    if spark.remote is not None:
        # Spark and its JVM are the server's, which is asked when there is a session.
        return
    finding = java_there(probe_java(environment()))
    if finding.verdict is Verdict.FAIL:
        raise InvalidConfiguration(f"{finding.sentence} {finding.remedy}")
    require_spark(environment().get("SPARK_HOME"))


def spawned_jvm(spark: SparkSettings, *, name: str) -> Jvm:
    """Spark's JVM, on its way up while this process imports the rest: it takes as long. Not waited for."""
    jvm = Jvm()
    if spark.remote is None:
        refuse_unused()
        # What keeps it from starting is told by the service, which tries again.
        with suppress(Unavailable):
            jvm.spawn(conf_of(spark, name=name))
    return jvm
