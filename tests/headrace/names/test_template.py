import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from headrace.names import MAX_OFFSET, MAX_PARTITION, KeyFields, KeyTemplate, TemplateError

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "template_cases.json").read_text(encoding="utf-8")
)["cases"]
MISPLACED = "; a placeholder cannot be inside [ ] or after a backslash, nor a group have its name"
AGAIN = "redefinition of group name 'topic' as group 2; was group 1"
OTHER = "this means something else in other versions"
TOPIC = "{{topic}} (letters, digits, '.', '_' and '-')"
MAY_2024 = 1_714_521_600_000  # 2024-05-01T00:00:00Z


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['template']} {case['key']}")
def test_published_cases(case: dict[str, Any]) -> None:
    """Every published case gives its result; fields that a case does not list are not asked for."""
    template = KeyTemplate.compile(
        case["template"], match=case.get("match", "search"), prefix=case.get("prefix", "")
    )
    explained = template.explain(case["key"]).as_dict()
    expected = case["expected"]
    assert explained["matched"] == (expected is not None)
    assert {name: explained[name] for name in expected or {}} == (expected or {})


@pytest.mark.parametrize(
    ("template", "match", "key", "expected"),
    [
        pytest.param("{{  topic\t}}/x", "search", "a/x", KeyFields(topic="a"), id="blanks inside braces"),
        pytest.param(
            "{{ partition : padding = true }}",
            "exact",
            "7",
            KeyFields(partition=7),
            id="blanks in parameters",
        ),
        pytest.param(
            "{{partition:padding=false}}",
            "search",
            "x007",
            KeyFields(partition=7),
            id="padding=false reads any",
        ),
        pytest.param(
            "{{partition:padding=true}}", "exact", "7", KeyFields(partition=7), id="padding=true reads any"
        ),
        pytest.param(".*", "search", "any key\nat all", KeyFields(), id="a template of no placeholder"),
        pytest.param("^a", "search", "ba", None, id="an anchor of the user"),
        pytest.param("(x|{{topic}})/1", "search", "x/1", KeyFields(), id="an alternative not taken"),
        pytest.param("_{{partition}}?/x", "search", "_/x", KeyFields(), id="an optional one not there"),
        pytest.param("{{partition}}", "search", "p٣", None, id="Arabic digits are none"),
        pytest.param("{{partition}}", "exact", "³", None, id="superscripts are none"),
        pytest.param("{{topic}}/", "search", "café/", None, id="letters beyond ASCII are none"),
        pytest.param(
            "(?i)LOGS/{{topic}}", "search", "logs/\N{KELVIN SIGN}", None, id="ignoring case stays ASCII"
        ),
        pytest.param(r"\d/{{topic}}", "search", "٣/a", None, id="classes of the user are ASCII, as in Java"),
        pytest.param("{{topic}}/(?P=topic)", "search", "ab/b", KeyFields(topic="b"), id="a reference back"),
        pytest.param(
            "{{topic}}{{partition}}-(?P=partition)",
            "search",
            "a12-12",
            KeyFields(topic="a", partition=12),
            id="a reference back to a number after a greedy neighbour",
        ),
        pytest.param("a.c{{topic}}", "exact", "abcx", None, id="exact text is no expression"),
        pytest.param("a.c{{topic}}", "exact", "a.cx", KeyFields(topic="x"), id="exact text is itself"),
        pytest.param("{{any}}{{topic}}", "exact", "a", KeyFields(topic="a"), id="any may be empty"),
        pytest.param("{{any}}/{{topic}}", "exact", "a/b/c", None, id="any stops at a slash"),
        pytest.param(
            "{{any}}/{{any}}/{{topic}}",
            "exact",
            "a/b\n/c",
            KeyFields(topic="c"),
            id="any twice, with newline",
        ),
        pytest.param(
            "{{any}}-{{topic}}-{{any}}-{{partition}}",
            "exact",
            "a-b-c-d-5",
            KeyFields(topic="c", partition=5),
            id="several greedy ones: each the most it can",
        ),
        pytest.param(
            "{{partition}}",
            "search",
            "0" * 1000 + str(MAX_PARTITION),
            KeyFields(partition=MAX_PARTITION),
            id="the largest partition, with zeros",
        ),
        pytest.param(
            "{{start_offset}}",
            "search",
            str(MAX_OFFSET),
            KeyFields(start_offset=MAX_OFFSET),
            id="largest offset",
        ),
        pytest.param(
            "{{partition}}",
            "search",
            str(MAX_PARTITION + 1),
            KeyFields(warnings=("the partition 2147483648 is above 2147483647 and is treated as absent",)),
            id="a partition too large",
        ),
        pytest.param(
            "{{start_offset}}",
            "exact",
            "9" * 5000,
            KeyFields(
                warnings=(
                    f"the start offset {'9' * 40}... is above 9223372036854775807 and is treated as absent",
                )
            ),
            id="more digits than int() reads",
        ),
    ],
)
def test_match(template: str, match: str, key: str, expected: KeyFields | None) -> None:
    """A key gives the fields that the contract says."""
    assert KeyTemplate.compile(template, match=match).match(key) == expected


NOT_A_DATE = "the timestamp 2024-13-01 is no date from 1970 on and is treated as absent"


@pytest.mark.parametrize(
    ("template", "key", "timestamp_ms", "warnings"),
    [
        pytest.param("{{timestamp}}", "1714521600123", MAY_2024 + 123, (), id="13 digits: milliseconds"),
        pytest.param("{{timestamp}}", "1714521600", MAY_2024, (), id="10 digits: seconds"),
        pytest.param("{{timestamp}}", "20240501", MAY_2024, (), id="8 digits: yyyyMMdd"),
        pytest.param("{{timestamp}}", "2024", None, (), id="other lengths: absent"),
        pytest.param("{{timestamp}}", "20241301", None, (NOT_A_DATE,), id="no such month"),
        pytest.param("{{timestamp:unit=yyyy}}", "1970", 0, (), id="a year alone"),
        pytest.param(
            "{{timestamp:unit=yyyy}}{{timestamp:unit=MM}}", "202405", MAY_2024, (), id="units adjacent"
        ),
        pytest.param(
            "{{timestamp:unit=HH}} {{timestamp:unit=dd}} {{timestamp:unit=MM}} {{timestamp:unit=yyyy}}",
            "23 01 05 2024",
            MAY_2024 + 23 * 3_600_000,
            (),
            id="units in any order",
        ),
        pytest.param("{{timestamp:unit=dd}}", "01", None, (), id="a day without its month"),
        pytest.param(
            "{{timestamp:unit=yyyy}}-{{timestamp:unit=dd}}", "2024-01", None, (), id="units with a gap"
        ),
        pytest.param(
            "{{timestamp:unit=yyyy}}/{{timestamp:unit=yyyy}}",
            "2024/2024",
            1_704_067_200_000,
            (),
            id="said twice",
        ),
        pytest.param(
            "{{timestamp:unit=yyyy}}/{{timestamp:unit=yyyy}}",
            "2024/2025",
            None,
            ("the timestamp has two values for yyyy, so it is treated as absent",),
            id="a contradiction",
        ),
        pytest.param(
            "{{timestamp:unit=yyyy}}/{{timestamp}}",
            "2024/1714521600123",
            MAY_2024 + 123,
            (),
            id="a whole time wins over units",
        ),
        pytest.param(
            "{{timestamp}}/{{timestamp}}", "7/1714521600", MAY_2024, (), id="the first that can be read"
        ),
        pytest.param(
            "{{timestamp:unit=yyyy}}",
            "1969",
            None,
            ("the timestamp 1969 is no date from 1970 on and is treated as absent",),
            id="before 1970",
        ),
        pytest.param(
            "{{timestamp:unit=yyyy}}",
            "0000",
            None,
            ("the timestamp 00 is no date from 1970 on and is treated as absent",),
            id="the year 0",
        ),
    ],
)
def test_timestamp(template: str, key: str, timestamp_ms: int | None, warnings: tuple[str, ...]) -> None:
    """Times are read by their digits or by their units, in UTC; what is no time is absent."""
    assert KeyTemplate.compile(template, match="exact").match(key) == KeyFields(
        timestamp_ms=timestamp_ms, warnings=warnings
    )


@pytest.mark.parametrize(
    ("template", "match", "problem", "underlined"),
    [
        ("", "search", "The template is empty; '.*' takes every key", ""),
        ("", "exact", "The template is empty; '{{any}}' takes every key without a folder", ""),
        ("a/{{topic", "search", "This placeholder is not closed with '}}'", "{{topic"),
        (
            "{{topc}}",
            "search",
            "'topc' is not a known placeholder; did you mean {{topic}}?",
            "topc",
        ),
        (
            "{{key}}/x",
            "search",
            "'key' is not a known placeholder; known are topic, partition, start_offset, timestamp",
            "key",
        ),
        (
            "a{{ }}",
            "exact",
            "A name is missing here; known are topic, partition, start_offset, timestamp, any",
            "}",
        ),
        (
            "{{any}}",
            "search",
            "{{any}} belongs to file.name.match=exact; in search write a regular expression such as [^/]*",
            "any",
        ),
        (
            "{{topic}}-{{ topic }}",
            "exact",
            "{{topic}} appears twice; only {{timestamp}} may repeat",
            "{{ topic }}",
        ),
        (
            "{{partition padding}}",
            "search",
            "'{{partition padding}}' is not a placeholder; write {{name}} or {{name:parameter=value}}",
            "{{partition padding}}",
        ),
        ("{{topic:unit=MM}}", "search", "{{topic}} has no parameter 'unit'; it takes none", "unit"),
        (
            "{{timestamp:padding=true}}",
            "search",
            "{{timestamp}} has no parameter 'padding'; it takes unit",
            "padding",
        ),
        (
            "{{partition:padding=yes}}",
            "search",
            "padding of {{partition}} cannot be 'yes'; it is one of true, false",
            "yes",
        ),
        (
            "{{timestamp:unit=mm}}",
            "exact",
            "unit of {{timestamp}} cannot be 'mm'; it is one of yyyy, MM, dd, HH",
            "mm",
        ),
        (
            "{{topic}}-(x",
            "search",
            "Not a regular expression: missing ), unterminated subpattern",
            "(",
        ),
        (r"{{topic}}\p{Alpha}", "search", r"Not a regular expression: bad escape \p", "\\"),
        (
            "a(?i)b",
            "search",
            "Not a regular expression: global flags not at the start of the expression",
            "(",
        ),
        (
            "[{{topic}}]",
            "search",
            f"Not a regular expression: unbalanced parenthesis{MISPLACED}",
            "{{topic}}",
        ),
        (
            "(?x)a #{{topic}}",
            "search",
            "{{topic}} cannot be inside a character class or a comment",
            "{{topic}}",
        ),
        (
            "[[a]b]",
            "search",
            f"Not a regular expression: {OTHER}: Possible nested set at position 1",
            "[[a]b]",
        ),
        (
            "a{99999999999}",
            "search",
            "Not a regular expression: the repetition number is too large",
            "a{99999999999}",
        ),
        (
            "(?P<topic>a){{topic}}",
            "search",
            f"Not a regular expression: {AGAIN}{MISPLACED}",
            "{{topic}}",
        ),
    ],
)
def test_mistakes(template: str, match: str, problem: str, underlined: str) -> None:
    """A wrong template gives one sentence and points at what is wrong."""
    with pytest.raises(TemplateError) as caught:
        KeyTemplate.compile(template, match=match)
    error = caught.value
    assert (error.problem, template[error.start : error.end]) == (problem, underlined)


def test_a_mistake_is_underlined() -> None:
    """The text of the error shows the template with the wrong part underlined below it."""
    with pytest.raises(TemplateError) as caught:
        KeyTemplate.compile("a\t{{tpic}}")
    assert str(caught.value) == (
        "'tpic' is not a known placeholder; did you mean {{topic}}? (character 5 of the template)\n"
        "    a\N{REPLACEMENT CHARACTER}{{tpic}}\n"
        "        ^^^^"
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own bytes


def test_unknown_mode() -> None:
    """Any other `match` is refused."""
    with pytest.raises(ValueError, match=r"file\.name\.match cannot be 'glob'; it is search or exact"):
        KeyTemplate.compile("x", match="glob")


def test_names() -> None:
    """`names` are the placeholders that give values."""
    template = KeyTemplate.compile("{{any}}/{{topic}}/{{timestamp}}", match="exact")
    assert template.names == {"topic", "timestamp"}


def test_pickles() -> None:
    """A template travels to executors."""
    for match in ("search", "exact"):
        template = KeyTemplate.compile("{{topic}}/{{partition}}", match=match, prefix="in/")
        again = pickle.loads(pickle.dumps(template))  # noqa: S301 - our own bytes
        assert again == template
        assert again.match("in/a/1") == template.match("in/a/1") is not None


@pytest.mark.parametrize(
    ("template", "match", "prefix", "key", "reason"),
    [
        (
            "topics/{{topic}}/{{partition}}",
            "search",
            "",
            "x/topics/a/one",
            "topics/{{topic}}/ matches 'topics/a/', but {{partition}} (digits) does not follow",
        ),
        (
            "topics/{{topic}}/{{partition}}",
            "search",
            "",
            "topics/",
            f"topics/ matches 'topics/', but {TOPIC} does not follow, the key ends there",
        ),
        ("topics/{{topic}}", "search", "", "a/b", "'topics/' is nowhere in the key"),
        ("(a|{{topic}})/x", "search", "", "/", "'(a|' is nowhere in the key"),
        (
            "a*{{partition}}",
            "search",
            "",
            "b",
            "a* matches nothing, but {{partition}} (digits) does not follow",
        ),
        ("{{topic}}", "exact", "in/", "out/a", "the key does not begin with the prefix 'in/'"),
        (
            "{{any}}/{{timestamp:unit=yyyy}}",
            "exact",
            "",
            "a/24",
            "after 'a/' the template expects {{timestamp}} (4 digits), but the key continues with '24'",
        ),
        (
            "{{topic}}.txt",
            "exact",
            "",
            "/a",
            f"at its start the template expects {TOPIC}, but the key continues with '/a'",
        ),
        ("{{topic}}/x", "exact", "", "a", "after 'a' the template expects '/x', but the key ends"),
        (
            "{{topic}}.gz",
            "exact",
            "",
            "a.gz/b",
            "the template ends after 'a.gz', but the key continues with '/b'",
        ),
    ],
)
def test_why_not(template: str, match: str, prefix: str, key: str, reason: str) -> None:
    """A key that does not match is told how far it got."""
    explained = KeyTemplate.compile(template, match=match, prefix=prefix).explain(key)
    assert (explained.matched, explained.reason) == (False, reason)


def test_explanation_as_dict() -> None:
    """The line of `explain --json` has the names and the order of the contract; a value left out is said."""
    template = KeyTemplate.compile("{{topic}}/{{partition}}/{{timestamp}}/{{start_offset}}")
    explained = template.explain("a/99999999999/1714521600123/5").as_dict()
    assert list(explained.items()) == [
        ("key", "a/99999999999/1714521600123/5"),
        ("matched", True),
        ("topic", "a"),
        ("partition", None),
        ("start_offset", 5),
        ("timestamp", "2024-05-01T00:00:00.123Z"),
        ("reason", "the partition 99999999999 is above 2147483647 and is treated as absent"),
    ]
