"""What Kafka Connect's own classes of transforms make of records: a JVM that reads and prints their JSON."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from localstack import jars
from localstack.parts import JAR_FOLDER
from tests.support import short_java

_SOURCE: Final = Path(__file__).with_name("ConnectTransforms.java")
_CONNECT: Final = jars.LOCK.with_name("connect-jars.lock")
_SECONDS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A record and the transforms that are applied to it; `key` and `value` are the values of their JSON.

    `predicates` are those that steps name, by their aliases.
    """

    steps: tuple[Mapping[str, str], ...]
    value: Any
    key: Any = None
    has_schemas: bool = False
    topic: str = "orders"
    headers: tuple[tuple[str, str], ...] = ()
    predicates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def json(self) -> str:
        """The line that the program reads."""
        return json.dumps(
            {
                "steps": [dict(step) for step in self.steps],
                "value": None if self.value is None else json.dumps(self.value),
                "key": None if self.key is None else json.dumps(self.key),
                "schemas": self.has_schemas,
                "topic": self.topic,
                "headers": self.headers,
                "predicates": {alias: dict(options) for alias, options in self.predicates.items()},
            }
        )


def connect_answers(given: Sequence[Given], *locks: Path) -> list[dict[str, Any]]:
    """What the classes make of each: its topic, key, value and headers, or that it is dropped, or an error.

    `locks` name jars that are needed beside Kafka's.
    """
    paths = [*jars.fetch(JAR_FOLDER)]
    for lock in (_CONNECT, *locks):
        paths += jars.fetch(JAR_FOLDER, lock)
    assert shutil.which("javac") is not None, (
        "there is no Java compiler (javac), which the program that runs Kafka's transforms needs: get a JDK"
    )
    java = shutil.which("java")
    assert java is not None, "there is no java"
    argv = [java, *short_java.OPTIONS, "-cp", ":".join(map(str, paths)), str(_SOURCE)]
    lines = "".join(f"{each.json()}\n" for each in given)
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(given), done.stderr[-2000:]
    return answers
