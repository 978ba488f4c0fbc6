"""What may not be said to Spark: retries of its own would produce records twice."""

import re
from collections.abc import Mapping
from typing import Final

from headrace.options.given import Entry, Problems

# The values that say what Headrace sets itself.
_DECIDED_HERE: Final = {"spark.task.maxFailures": "1", "spark.speculation": "false"}
# local[N,F] is Spark's other way to say spark.task.maxFailures=F.
_LOCAL_RETRIES: Final = re.compile(r"local\[[^,\]]*,\s*([0-9]+)\s*\]")


def check_spark(entries: Mapping[str, Entry], problems: Problems) -> None:
    """Note what would make Spark repeat tasks, and two places to run at once."""
    for name, value in _DECIDED_HERE.items():
        entry = entries.get(name)
        if entry is not None and entry.text.strip().lower() != value:
            problems.add(name, f"would weaken the guarantee; Headrace sets {value}: remove it", entry.shown)
    master, remote = entries.get("spark.master"), entries.get("spark.remote")
    if master is not None:
        retries = _LOCAL_RETRIES.fullmatch(master.text.strip())
        if retries is not None and int(retries[1]) != 1:
            problems.add(
                "spark.master",
                "lets Spark repeat tasks, as spark.task.maxFailures would; use local[N]",
                master.shown,
            )
        if remote is not None:
            problems.add("spark.remote", "says otherwise than spark.master; keep one of them", remote.shown)
