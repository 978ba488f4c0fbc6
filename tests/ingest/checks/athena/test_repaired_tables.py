"""Partitions for MSCK REPAIR TABLE: offered where it adds the directories, and refused elsewhere."""

import json
from collections.abc import Mapping
from typing import Final

import pytest

from ingest.checks.athena import NotQueryable, Table, ddl
from ingest.cli.athena import table_of
from ingest.cli.sink_explain import sample_record
from tests.support.sink_archives import sink_settings

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


def _repaired(options: Mapping[str, str]) -> Table:
    settings = sink_settings({"topics": "orders", "aws.s3.bucket.name": "lake", **options})
    record = {"topic": "orders", "key": "k", "timestamp": 1_767_268_800_000, "value": {"id": 7, "total": 1.5}}
    found = [sample_record(settings, json.dumps(record))]
    return table_of(settings, "orders", found, database="lake", table="orders", is_repaired=True)


@pytest.mark.parametrize(
    ("path", "zone", "is_found"),
    [
        ("customerId={{value:id}}/", "UTC", False),
        ("customerid={{value:id}}/", "UTC", True),
        ("at={{date:HH:mm}}/", "UTC", False),
        ("at={{date:HH-mm}}/", "UTC", True),
        ("at={{date:HH XXX}}/", "UTC", True),
        ("at={{date:HH XXX}}/", "Europe/London", False),
        ("at={{date:HH XX}}/", "Europe/London", True),
        ("id={{value:id}}/raw/total={{value:total}}/", "UTC", False),
        ("raw/id={{value:id}}/total={{value:total}}/raw/", "UTC", True),
    ],
)
def test_repair_is_offered_where_it_adds_directories(path: str, zone: str, *, is_found: bool) -> None:
    """Of camel case, with a colon, or with another directory between it adds none, and says nothing."""
    options = {
        "file.name.template": f"{{{{topic}}}}/{path}{{{{partition}}}}+{{{{start_offset}}}}{{{{extension}}}}",
        "file.name.timestamp.timezone": zone,
        "value.converter": _JSON,
    }
    if is_found:
        assert ddl(_repaired(options))[-1].startswith("MSCK REPAIR TABLE")
        return
    with pytest.raises(NotQueryable, match="in lower case and no colon"):
        _repaired(options)


def test_repair_says_which_plain_values_it_does_not_find() -> None:
    """They make directories of their own, or have a colon."""
    hive = "{{topic}}/region={{value:id}}/{{partition}}-{{start_offset}}{{extension}}"
    options = {"file.name.template": hive, "value.converter": _JSON}

    notes = {
        values: "with : or /" in " ".join(_repaired({**options, "file.name.values": values}).notes())
        for values in ("plain", "escaped")
    }

    assert notes == {"plain": True, "escaped": False}
