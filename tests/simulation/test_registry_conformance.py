"""The simulated schema registry answers as a real one does: as it did once, and where one runs, as it does.

A registry that answers Confluent's requests and was written by others is Apicurio's: `io.apicurio`,
`apicurio-registry-app`, classifier `all` on Maven Central. Started in memory, its address ends with
`/apis/ccompat/v7`.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.simulation.kernel import Kernel
from tests.simulation.registry_conversation import plain, talk_registry, talk_with
from tests.simulation.schemas import Registry, SimulatedRegistry

_RECORDED: Final = Path(__file__).with_name("registry_conversation.json")


def _recorded() -> Any:
    """What Apicurio's registry 2.6.13 has answered."""
    return json.loads(_RECORDED.read_text())


def test_the_simulated_registry_answers_as_the_real_one_did() -> None:
    """Registering, versions, types, references, and what is refused."""
    registry = Registry(Kernel(1))

    assert plain(talk_registry(SimulatedRegistry(registry), "orders")) == _recorded()


@pytest.mark.long
def test_a_real_registry_answers_as_it_did() -> None:
    """Held again with the registry at HEADRACE_TEST_REGISTRY."""
    url = os.environ.get("HEADRACE_TEST_REGISTRY")  # noqa: TID251 - tests have no other way in
    if url is None:
        pytest.skip("HEADRACE_TEST_REGISTRY names no schema registry: none was asked")

    assert talk_with(url) == _recorded()
