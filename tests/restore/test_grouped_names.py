"""Names that group records, and those of a topic that was made again: their order is not called exact."""

from typing import Final

import pytest

from headrace.formats.content_kind import RowFormat
from headrace.names.archive_names import LayoutName
from headrace.options.record_sources import NameOptions
from headrace.vendors.exactness import Aspect, ContentFacts, Grade, exactness
from headrace.vendors.key_names import ArchiveNames

_FILE: Final = "orders/3/00000000000000000050.headrace.jsonl"
_SPREAD: Final = "records are spread over directories"
_LIFE: Final = "the topic was deleted and made again"
_ANY: Final = "{{any}}/{{topic}}-{{partition}}-{{start_offset}}"


@pytest.mark.parametrize(
    ("key", "prefix", "why"),
    [
        (f"backup/{_FILE}", "backup/", None),
        (f"backup/region=eu/{_FILE}", "backup/", _SPREAD),
        (f"backup/region=eu/{_FILE}", "backup/region=eu/", None),
        (f"backup/topic_id=Yx2/{_FILE}", "backup/", _LIFE),
        (f"backup/topic_id=Yx2/{_FILE}", "backup/topic_id=Yx2/", None),
        (f"backup/topic_id=Yx2/{_FILE}", "backup/topic_id=Yx2/orders/", None),
        (f"backup/topic_id=Yx2/region=eu/{_FILE}", "backup/topic_id=Yx2/", _SPREAD),
    ],
)
def test_directories_that_group_records_lose_their_order(key: str, prefix: str, why: str | None) -> None:
    """As long as the prefix is not that of one group, or of one life."""
    name = ArchiveNames(LayoutName.HEADRACE, NameOptions(prefix=prefix)).read(key).name
    assert name is not None
    facts = ContentFacts(row_format=RowFormat.JSONL, members=frozenset({"topic", "partition", "offset"}))

    order = {each.aspect: each for each in exactness(name, facts, ordering="partition")}[Aspect.ORDER]

    assert order.grade is (Grade.EXACT if why is None else Grade.PARTLY)
    assert [each.startswith(why or "") for each in order.why] == ([] if why is None else [True])


@pytest.mark.parametrize(
    ("layout", "key", "template"),
    [
        (LayoutName.AIVEN, "backup/topic_id=Yx2/orders-3-50.gz", None),
        (LayoutName.AIVEN, "backup/topic_id=Yx2/orders-3-50", _ANY),
        (LayoutName.CONFLUENT, "backup/topic_id=Yx2/orders/partition=3/orders+3+0000000050.json", None),
        (LayoutName.LENSES, "backup/topic_id=Yx2/orders/3/000000000050_1_2.json", None),
        (LayoutName.QUIX, "backup/topic_id=Yx2/orders/3/0000000000000000050.jsonl", None),
        (None, f"backup/topic_id=Yx2/{_FILE}", None),
    ],
)
def test_every_layout_of_our_sink_shows_another_life(
    layout: LayoutName | None, key: str, template: str | None
) -> None:
    """The sink puts the directory after the prefix, whatever the names below it are."""
    found = ArchiveNames(layout, NameOptions(prefix="backup/"), template).read(key)

    assert found.name is not None
    assert (found.name.topic, found.name.partition) == ("orders", 3)
    assert found.name.inexact[0].why.startswith(_LIFE)
