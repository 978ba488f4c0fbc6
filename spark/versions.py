"""Which Spark is supported, and which one is there: told without importing it or starting its JVM."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import Final

from headrace.model.errors import InvalidConfiguration

SUPPORTED: Final = (4, 3)
"""Major and minor: what the tests run against. We reach into parts of PySpark that each minor may change."""
_NAME: Final = ".".join(map(str, SUPPORTED))
_CORE: Final = re.compile(r"spark-core_[\d.]+-(\d+\.\d+\.\S+)\.jar")


def require_spark(spark_home: str | None) -> None:
    """InvalidConfiguration unless PySpark, and the Spark that it would start, are the supported ones.

    `spark_home` is the environment's SPARK_HOME: PySpark starts what is there instead of its own jars.
    """
    pyspark = version("pyspark")
    if _minor(pyspark) != SUPPORTED:
        raise InvalidConfiguration(
            f"Headrace runs on Spark {_NAME}, and PySpark {pyspark} is installed: install pyspark=={_NAME}.*."
        )
    if spark_home is None:
        return
    found = spark_at(Path(spark_home))
    if found is None or _minor(found) != SUPPORTED:
        there = "there is no Spark" if found is None else f"there is Spark {found}"
        raise InvalidConfiguration(
            f"Headrace runs on Spark {_NAME}, and SPARK_HOME is {spark_home}, where {there}: unset "
            f"SPARK_HOME (PySpark brings Spark along), or point it to a Spark {_NAME}."
        )


def require_server(found: str, place: str) -> None:
    """InvalidConfiguration unless a Spark Connect server has a version that this client can ask."""
    if _minor(found)[0] != SUPPORTED[0]:
        raise InvalidConfiguration(
            f"{place} is Spark {found}, and Headrace needs one of Spark {SUPPORTED[0]}: update the server, "
            "or use spark.master."
        )


def spark_at(home: Path) -> str | None:
    """The version of the Spark in this folder, by its jars; None where there is none."""
    names = (_CORE.fullmatch(jar.name) for jar in (home / "jars").glob("spark-core_*.jar"))
    return next((found[1] for found in names if found is not None), None)


def _minor(text: str) -> tuple[int, int]:
    """4.3.0-SNAPSHOT and 4.3.0.dev1 are (4, 3)."""
    numbers = re.match(r"(\d+)\.(\d+)", text)
    return (0, 0) if numbers is None else (int(numbers[1]), int(numbers[2]))
