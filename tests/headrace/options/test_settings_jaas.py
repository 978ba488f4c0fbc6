"""JAAS entries become librdkafka's properties, or a sentence that holds nothing of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.options.sasl import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER = {"sasl.username": "me", "sasl.password": "p"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f'{PLAIN} required username="me" password="p";', USER, id="quoted"),
        pytest.param(f"{PLAIN} required username=me password=p;", USER, id="bare"),
        pytest.param(f"{PLAIN}\n REQUIRED\n username = 'me'\n password = 'p' ;\n", USER, id="lines"),
        pytest.param(
            f'{PLAIN} required username="a=b;c" password="\\"\\\\\\t";',
            {"sasl.username": "a=b;c", "sasl.password": '"\\\t'},
            id="escapes",
        ),
    ],
)
def test_user_and_password(text: str, expected: dict[str, str]) -> None:
    """User and password, however they are quoted."""
    assert parse_jaas(text) == expected


FORM = 'expected one entry of the form: Module required name="value" ..;'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", FORM, id="nothing"),
        pytest.param(f'{PLAIN} required username="me" password="p"', FORM, id="no semicolon"),
        pytest.param(f"{PLAIN} username=me;", FORM, id="no flag"),
        pytest.param(f"{PLAIN} required username;", FORM, id="no value"),
        pytest.param(f"{PLAIN} required a=1; {PLAIN} required a=1;", FORM, id="two entries"),
        pytest.param(f"{PLAIN} required username=a username=b password=c;", FORM, id="twice"),
        pytest.param(f'{PLAIN} required username="me;', "a quotation mark is not closed", id="open quote"),
        pytest.param(
            f"{PLAIN} required username=me;", "its login module needs the option password", id="half"
        ),
        pytest.param(
            f"{PLAIN} required username=me password=p tokenauth=true;",
            "one of its options has no counterpart here; understood are username, password",
            id="other option",
        ),
    ],
)
def test_what_cannot_be_used(text: str, message: str) -> None:
    """What cannot be used is told without the entry's text."""
    with pytest.raises(JaasError) as caught:
        parse_jaas(text)

    assert str(caught.value) == message


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_password_is_read_back(password: str) -> None:
    """Any password is read back."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')

    found = parse_jaas(f'{PLAIN} required username="me" password="{quoted}";')

    assert found["sasl.password"] == password


@given(st.text(alphabet=st.sampled_from("aA\"'\\=; \n")))
def test_a_text_without_a_known_module_is_a_jaas_error(text: str) -> None:
    """A text without a known module is a JAAS error and nothing else, however it is cut up."""
    with pytest.raises(JaasError):
        parse_jaas(text)
