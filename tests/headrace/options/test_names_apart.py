"""Topics whose objects would have the same names: refused at the start, whatever makes them the same."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.options.given import SettingsError
from tests.support.sink_archives import sink_settings

_NAME: Final = "{{topic}}/{{partition}}/{{start_offset}}"
_PREFIX: Final = "route.q.aws.s3.prefix"
_ROUTED: Final = "send a-b and x_b to one name, a_b"
_QUIX: Final = {"topics": "a-b,x_b", "output.layout": "quix"}


def _router(regex: str, replacement: str) -> dict[str, str]:
    return {
        "transforms": "r",
        "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.r.regex": regex,
        "transforms.r.replacement": replacement,
    }


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({**_QUIX, **_router("x_(.*)", "a_$1")}, _ROUTED),
        ({**_QUIX, **_router("x_(.*)", "c_$1")}, None),
        # What is assumed was taken before, and is set aside where it meets.
        ({**_QUIX, **_router("x_(.*)", "a_$1"), "file.name.unique": "assumed"}, None),
        (
            {**_QUIX, "topics": "a_b,x_b", **_router("x_(.*)", "a_$1"), "file.name.unique": "assumed"},
            "send a_b and x_b to one name",
        ),
        (
            {"topics": "a,b", "file.name.template": _NAME, **_router("b", "a"), "route.q.topics": "b"}
            | {"route.q.file.name.template": "{{ topic }}/{{partition:padding=false}}/{{start_offset}}"},
            "send a and b to one name, a",
        ),
        (
            {"topics": "orders,eu-orders", "route.q.topics": "orders", _PREFIX: "eu-"},
            "has orders and eu-orders",
        ),
        ({"topics": "orders,eu-orders", "route.q.topics": "orders", _PREFIX: "eu/"}, None),
        (
            {
                "topics.regex": ".*orders",
                "route.q.topics": "orders",
                _PREFIX: "eu-",
                "route.s.topics": "eu-orders",
            },
            "topics.regex = '.*orders': has orders and eu-orders",
        ),
        (
            {"topics": "orders,eu-orders", "route.q.topics": "orders", "route.q.output.format": "parquet"}
            | {_PREFIX: "eu-"},
            None,
        ),
        (
            {"topics": "a,b", "route.q.topics": "b", "file.name.template": "b/" + _NAME}
            | {"route.q.file.name.template": "b/a/{{partition}}/{{start_offset}}/{{topic}}"},
            None,
        ),
    ],
)
@pytest.mark.parametrize("support", ["required", "disabled"])
def test_topics_whose_names_meet_are_refused(
    options: Mapping[str, str], problem: str | None, support: str
) -> None:
    """What surely meets: prefixes, topics and text together, and the same variables where the text ends."""
    given = {"aws.s3.bucket.name": "bucket", "exactly.once.support": support, **options}
    if problem is None:
        assert sink_settings(given).sink
        return
    with pytest.raises(SettingsError) as refused:
        sink_settings(given)
    assert problem in str(refused.value)
