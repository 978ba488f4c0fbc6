"""What a service needs of the machine before it starts anything: a Java and a Spark that are not too old."""

from headrace.model.errors import InvalidConfiguration
from headrace.options.settings import SparkSettings
from ingest.checks.findings.finding import Verdict
from ingest.checks.findings.machine import java_there
from ingest.checks.probes.machine import probe_java
from ingest.cli.configuration import environment
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
