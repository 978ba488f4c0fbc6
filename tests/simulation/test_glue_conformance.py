"""The registry that stands for AWS Glue's in the tests answers as another one does, by other people.

LocalStack's community edition has no Glue; moto (Apache License 2.0) has, and its answers were recorded:
`pip install moto`, then `python -m tests.simulation.glue_conversation`.
"""

import json
from pathlib import Path
from typing import Any

import botocore.session

from tests.simulation.glue_conversation import new_client, plain, talk_glue
from tests.support.glue_server import served


def test_glue_of_the_tests_answers_as_moto_did() -> None:
    """Creating, registering, looking up, the newest version, and what is refused: moto 5.2.1."""
    recorded = json.loads(Path(__file__).with_name("glue_conversation.json").read_text())

    with served() as (_, url):
        client: Any = new_client(botocore.session.get_session().create_client, endpoint_url=url)

        assert plain(talk_glue(client, "orders")) == recorded
