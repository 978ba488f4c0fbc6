"""`status` and `plan` of a query of Spark whose options are wrong."""

import json
from pathlib import Path

import pytest

from headrace.model.errors import Exit, InvalidConfiguration, exit_code
from ingest.cli.plan import plan
from ingest.cli.status import status


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rows": "nonsense"}, "rows"),
        ({"aws.s3.bucket.name": "a12,b12"}, "a query reads one bucket"),
        ({"state.path": "s3://b12"}, "with a prefix of its own"),
    ],
)
def test_wrong_options_of_a_query_are_the_configurations(
    tmp_path: Path, options: dict[str, str], words: str
) -> None:
    """As those of a connector are; the sentence is the one that a query fails with."""
    file = tmp_path / "query.json"
    file.write_text(json.dumps({"aws.s3.bucket.name": "b12", "state.path": str(tmp_path / "log"), **options}))
    for command in (status, plan):
        with pytest.raises(InvalidConfiguration, match=words) as raised:
            command(file)
        assert exit_code(raised.value) is Exit.CONFIGURATION
