"""Options for a Spark that a test starts by itself, without Headrace: it lasts for seconds."""

import os

from spark import spark_conf


def short_lived() -> dict[str, str]:
    """What Headrace gives its own JVM: one compiler, a plain collector, its archive of classes.

    Without them Spark takes twice the CPU until its first job is over.
    """
    conf = {spark_conf.JAVA_OPTIONS: spark_conf._SHORT_LIVED_JAVA}
    if (shared := spark_conf.archive_settings({}, os.environ)) is not None:  # noqa: TID251  # as Spark's scripts
        options, conf[spark_conf.CLASS_PATH] = shared
        conf[spark_conf.JAVA_OPTIONS] += f" {options}"
    return conf
