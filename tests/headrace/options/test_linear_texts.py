"""What looks through users' texts walks each once, and its answers are what they were.

All of it holds the interpreter, and with it every connector of a worker.
"""

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.options.references import led_to, references_in, with_references, with_replaced
from headrace.options.secret import is_mask, without_url_secrets
from tests.headrace.options.loading import problems_with

# What earlier versions looked through texts with: the answers stay theirs.
_USER_INFO = re.compile(r"(?<=://).*@|^[^/@\s]+:(?!//)[^@\s]*@", re.DOTALL)
_PARAMETER = re.compile(r"(;\s*(?!use_ssl=|user_id=|user_agent=|session_id=)[^=;]*=)[^;]*", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")

_SIGNS = st.lists(
    st.sampled_from(
        [
            "a",
            ":",
            "/",
            "//",
            "://",
            "@",
            " ",
            "\n",
            "\u2003",
            "u\x1fs",
            ";",
            "=",
            "sc://",
            "use_ssl=",
            "U\u017fE_SSL=",
        ]
    ),
    max_size=12,
).map("".join)
_REFERRING = st.lists(
    st.sampled_from(["a", ":", "$", "{", "}", "${", "${env:A}", "${file:/a:b:c}", ",", "secret", "\n"]),
    max_size=12,
).map("".join)


def by_expression(text: str) -> str:
    """What was shown of a text with a URL."""
    shown = _USER_INFO.sub("***@", text)
    return _PARAMETER.sub(r"\1***", shown) if shown.lstrip().startswith("sc://") else shown


@given(_SIGNS | st.text(alphabet=":/@ ;=sca", max_size=14))
@example("https://me:pw@host/a@b")
@example("me:p/w@host,other:1@x")
@example("a://b://c@d")
@example("sc://h;token=x; use_ssl=true;use_ssl=true;\n=a=b")
def test_what_is_masked_stays_what_it_was(text: str) -> None:
    """Whatever is in a URL, or in what is none."""
    assert without_url_secrets(text) == by_expression(text)


@given(_REFERRING)
@example("${${env:A}")
@example("${FOO} ${file:a:b}")
def test_references_stay_what_they_were(text: str) -> None:
    """In each other, unfinished and of unknown forms, too."""
    found = [(one.text, one.provider, one.path, one.key) for one in references_in(text)]
    assert found == [(one[0], *one.groups()) for one in _REFERENCE.finditer(text)]
    assert with_replaced(text, lambda one: f"<{one.key}>") == _REFERENCE.sub(r"<\3>", text)


@given(_REFERRING, st.lists(st.sampled_from(["a", ",", "secret", "", "\n", "a,a"]), min_size=12, max_size=12))
def test_what_references_led_to_stays_what_it_was(raw: str, values: list[str]) -> None:
    """The first of them has most, where a text may be of either."""
    rest = iter(values)
    text = _REFERENCE.sub(lambda _: next(rest), raw)
    found = list(_REFERENCE.finditer(raw))
    ends = [0, *(one.end() for one in found)]
    between = [re.escape(raw[end : one.start()]) for end, one in zip(ends, found, strict=False)]
    whole = re.fullmatch("(.*)".join([*between, re.escape(raw[ends[-1] :])]), text, re.DOTALL)
    assert whole is not None
    assert list(led_to(raw, text)) == list(zip((one[0] for one in found), whole.groups(), strict=True))
    assert list(led_to(raw, f"{text}x{text}")) == [] or found


def test_a_sentence_keeps_its_references() -> None:
    """What a reference has in it is not taken for what one led to."""
    led = [("${env:A}", "secret-1"), ("${env:B}", "env:secret-2")]
    sentence = "secret-1: ${env:secret-2} is not env:secret-2, nor ${x:secret-1} or ${secret-1"
    assert (
        with_references(sentence, led)
        == "${env:A}: ${env:secret-2} is not ${env:B}, nor ${x:secret-1} or ${${env:A}"
    )


def _seconds(work: Callable[[str], object], text: str) -> float:
    begin = time.process_time()
    work(text)
    return time.process_time() - begin


@pytest.mark.parametrize(
    ("work", "unit"),
    [
        (without_url_secrets, "://"),
        (without_url_secrets, "a:"),
        (without_url_secrets, "://a@"),
        (without_url_secrets, ":/@"),
        (lambda text: without_url_secrets(f"sc://h;{text}"), " "),
        (lambda text: without_url_secrets(f"sc://h{text}"), "; "),
        (lambda text: without_url_secrets(f"sc://h{text}"), ";a="),
        (lambda text: is_mask(text, is_secret=True), "***"),
        (lambda text: is_mask(f"sc://{text}", is_secret=True), ";a=**"),
        (lambda text: list(references_in(text)), "${"),
        (lambda text: list(references_in(text)), "${}"),
        (lambda text: list(references_in(text)), "${a:"),
        (lambda text: list(led_to(text, text)), "${env:A},"),
        (lambda text: with_references(text, [("${env:A}", "secret-1"), ("${env:B}", text)]), "${secret-1 "),
        (lambda text: with_references(f"{text} no-word", [("${env:A}", text)]), "secret-1,"),
    ],
)
def test_twice_the_text_is_no_four_times_the_work(work: Callable[[str], object], unit: str) -> None:
    """Seconds are far more than one walk takes, and far less than one from each place."""
    # A quadratic one takes minutes for this.
    assert _seconds(work, unit * (400_000 // len(unit))) < 5


def test_what_many_references_led_to_is_found_at_once() -> None:
    """An expression with one group for each tries all divisions of the text."""
    raw = ",".join(f"${{env:V{number}}}" for number in range(60))
    text = ",".join(f"v{number}" for number in range(60))
    assert list(led_to(raw, text)) == [(f"${{env:V{number}}}", f"v{number}") for number in range(60)]
    # Exponential, where one value is missing.
    assert list(led_to(raw, text.rpartition(",")[0])) == []


@pytest.mark.parametrize(
    "form",
    [
        "aws.s3.bucket.nam{}",
        "producer.override.linger.m{}",
        "transforms.x.topc{}",
        "transforms.y{}.type",
    ],
)
def test_what_was_meant_is_said_of_twenty(form: str) -> None:
    """A name is compared with hundreds, and a configuration may have thousands that are wrong."""
    router = {
        "transforms": "x",
        "transforms.x.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.x.topic.field": "t",
        "transforms.x.regex": "",
    }
    changes = {form.format("e" * number): "v" for number in range(1, 60)}
    problems = problems_with({**router, **changes})
    assert len(problems) >= 50
    assert sum("did you mean" in one.message for one in problems) <= 20
