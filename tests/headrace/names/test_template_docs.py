import re
from pathlib import Path

import pytest

from headrace.names import KeyFields, KeyTemplate, TemplateError
from headrace.names.archive_names import DEFAULT_INDEXES, is_bookkeeping
from headrace.options.declarations.restore_options import INDEXES

DOCS = Path(__file__).parents[3] / "docs" / "templates.md"
DAY = "{{timestamp:unit=yyyy}}/{{timestamp:unit=MM}}/{{timestamp:unit=dd}}"
MAY_2024 = 1_714_521_600_000  # 2024-05-01T00:00:00Z


@pytest.mark.parametrize(
    ("template", "match", "prefix", "key", "expected"),
    [
        (
            "{{topic}}-{{partition}}-{{start_offset}}",
            "search",
            "",
            "22-10-12/customer-topic-1-1734445664111.txt",
            KeyFields(topic="22", partition=10, start_offset=12),
        ),
        (
            "/{{topic}}-{{partition}}-{{start_offset}}",
            "search",
            "",
            "22-10-12/customer-topic-1-1734445664111.txt",
            KeyFields(topic="customer-topic", partition=1, start_offset=1734445664111),
        ),
        (
            "{{any}}/{{topic}}-{{partition}}-{{start_offset}}.txt",
            "exact",
            "",
            "22-10-12/customer-topic-1-1734445664111.txt",
            KeyFields(topic="customer-topic", partition=1, start_offset=1734445664111),
        ),
        (
            "{{topic}}/{{partition}}/{{start_offset}}.jsonl",
            "exact",
            "in/",
            "in/orders/3/42.jsonl",
            KeyFields(topic="orders", partition=3, start_offset=42),
        ),
        ("{{topic}}/{{partition}}/{{start_offset}}.jsonl", "exact", "in/", "in/orders/3/42.jsonl.gz", None),
        (
            f"{{{{topic}}}}/{DAY}/{{{{partition}}}}-{{{{start_offset}}}}.gz",
            "exact",
            "",
            "orders/2024/05/01/3-42.gz",
            KeyFields(topic="orders", partition=3, start_offset=42, timestamp_ms=MAY_2024),
        ),
    ],
)
def test_examples(template: str, match: str, prefix: str, key: str, expected: KeyFields | None) -> None:
    """The keys and templates that the documentation shows give what it says, and are in it as they stand."""
    text = DOCS.read_text(encoding="utf-8")
    assert f"`{template}`" in text
    assert f"`{key}`" in text
    assert KeyTemplate.compile(template, match=match, prefix=prefix).match(key) == expected


@pytest.mark.parametrize(
    "expression",
    [r"(?<name>a)", r"a(?i)b", r"\Qa\E", r"\p{Alpha}", r"\h", r"[a-z&&[^b]]", r"[[a]bc]", r"a\z"],
)
def test_javas_own_expressions_are_errors(expression: str) -> None:
    """What only Java knows is refused at start, never taken for something else."""
    with pytest.raises(TemplateError):
        KeyTemplate.compile(expression)


def test_a_class_inside_a_class() -> None:
    """The one expression that both know and read differently is in the documentation, as it works here."""
    assert "`[a[bc]]` is one of `a`, `[`, `b`, `c`, then `]`" in DOCS.read_text(encoding="utf-8")
    template = KeyTemplate.compile("^[a[bc]]$")
    assert template.match("b") is None
    assert template.match("[]") is not None


def test_placeholder_table_is_complete() -> None:
    """Every placeholder that the documentation lists compiles in exact mode."""
    listed = re.findall(r"^\| `(\{\{[^`]+\}\})`", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    placeholders = [each.replace("unit=U", "unit=dd") for each in listed if "/" not in each]
    assert len(placeholders) >= 6
    for each in placeholders:
        KeyTemplate.compile(each, match="exact")


@pytest.mark.parametrize("folder", DEFAULT_INDEXES)
def test_what_no_template_takes_is_told(folder: str) -> None:
    """Keys below other tools' folders are left out of every source, though `.*` takes every key."""
    assert is_bookkeeping(f"in/{folder}a.jsonl")
    assert f"`{folder}`" in DOCS.read_text(encoding="utf-8")
    assert f"`{folder}`" in INDEXES.doc
