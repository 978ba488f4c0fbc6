"""The lock of the broker's jars is read strictly, and only jars that match it are used."""

import hashlib
from pathlib import Path

import pytest

from localstack import jars
from localstack.steps import PartError


def test_the_lock_names_the_broker_and_every_jar_once() -> None:
    """The version here is the one the design was tried on."""
    locked = jars.read_lock()

    assert "kafka_2.13-4.1.1.jar" in {jar.name for jar in locked}
    assert len({jar.name for jar in locked}) == len(locked)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("org.lz4:lz4-java:1.8.0", id="no digest"),
        pytest.param(f"org.lz4:lz4-java sha256:{'0' * 64}", id="no version"),
        pytest.param(f"org.lz4:lz4-java:1.8.0 sha256:{'0' * 63}", id="short digest"),
        pytest.param("", id="empty line"),
    ],
)
def test_a_line_that_is_no_jar_is_named(tmp_path: Path, line: str) -> None:
    """A lock with a hole would leave a jar unchecked."""
    lock = tmp_path / "kafka-jars.lock"
    lock.write_text(f"{line}\n")

    with pytest.raises(
        ValueError, match=r"kafka-jars\.lock: expected 'group:artifact:version sha256:digest'"
    ):
        jars.read_lock(lock)


def test_a_jar_that_is_not_the_locked_one_is_refused_and_removed(tmp_path: Path) -> None:
    """The next call fetches it again, because it is missing then."""
    locked = jars.read_lock()
    for jar in locked:
        (tmp_path / jar.name).write_bytes(b"not a jar")

    with pytest.raises(
        PartError, match=f"{locked[0].name} has sha256 {hashlib.sha256(b'not a jar').hexdigest()}"
    ):
        jars.fetch(tmp_path)

    assert list(tmp_path.glob("*.jar")) == []
