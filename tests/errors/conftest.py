"""The two sources that most rows of the error table are tried on: one of each tolerance, for all modules."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.errors.harness import Stand, hosted_stand
from tests.support.worker_process import WorkerProcess


@pytest.fixture(scope="session")
def stands(
    tmp_path_factory: pytest.TempPathFactory, shared_worker: WorkerProcess, for_the_group: ExitStack
) -> dict[str, Stand]:
    """A stand of each tolerance: connectors of the worker that many tests share."""
    return {
        name: for_the_group.enter_context(
            hosted_stand(shared_worker, tmp_path_factory.mktemp(name), stem, tolerant=name == "all")
        )
        for name, stem in (("none", "strict"), ("all", "tolerant"))
    }


# Where both columns say the same, `make test` looks at one of them.
@pytest.fixture(params=["none", pytest.param("all", marks=pytest.mark.long)])
def one(request: pytest.FixtureRequest, stands: dict[str, Stand]) -> Iterator[Stand]:
    """The stand of a column of the table; afterwards its proxy behaves."""
    found = stands[request.param]
    yield found
    found.proxy.off()


@pytest.fixture
def strict(stands: dict[str, Stand]) -> Iterator[Stand]:
    """The stand with `errors.tolerance=none`."""
    yield stands["none"]
    stands["none"].proxy.off()


@pytest.fixture
def tolerant(stands: dict[str, Stand]) -> Iterator[Stand]:
    """The stand with `errors.tolerance=all` and a dead letter topic."""
    yield stands["all"]
    stands["all"].proxy.off()
