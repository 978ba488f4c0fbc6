"""The packages that an image of Headrace carries, with versions and licences, as THIRD-PARTY.md.

Usage: .venv/bin/python docker/third_party.py > THIRD-PARTY.md
"""

import re
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

_LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"
_INTRODUCTION = """\
# Third-party packages

<!-- Written by `.venv/bin/python docker/third_party.py > THIRD-PARTY.md` from requirements.lock. -->

Headrace is under the [Apache License 2.0](LICENSE). It is installed with these packages, each under its own
licence, which stands in the package's metadata (`*.dist-info`). pyspark brings Apache Spark with jars of its
own (`pyspark/jars`, `pyspark/licenses`), confluent-kafka brings librdkafka.

| package | version | licence |
| --- | --- | --- |
"""


def rows() -> list[str]:
    """A line for each package of the lock file, by name."""
    pinned = re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==(\S+)", _LOCK.read_text(), re.MULTILINE)
    return [f"| {name} | {version} | {_licence(distribution(name))} |" for name, version in sorted(pinned)]


def _licence(package: Distribution) -> str:
    """What its metadata says: the expression, else the classifiers, else the first line of its own text."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier", [])
        if line.startswith("License")
    ]
    if classifiers and classifiers != ["OSI Approved"]:
        return ", ".join(classifiers)
    text = (metadata.get("License") or "").strip().splitlines()
    return text[0].strip() if text else "see its metadata"


if __name__ == "__main__":
    sys.stdout.write(_INTRODUCTION + "\n".join(rows()) + "\n")
