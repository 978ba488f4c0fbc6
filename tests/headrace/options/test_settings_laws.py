"""Whatever a configuration holds, it gives settings or a SettingsError, and never shows a secret."""

import copy
import dataclasses
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.options import OPTIONS, Secret, Settings, SettingsError, describe
from headrace.options.client_names import KNOWN, TOP_LEVEL
from headrace.options.secret import is_secret_name
from headrace.vendors.load import load
from tests.headrace.options.loading import COMPLETE, no_file
from tests.support.examples import examples

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password={};"

names = st.sampled_from(
    [
        *(spelling for option in OPTIONS for spelling in (option.name, *option.aliases)),
        *sorted(TOP_LEVEL),
        *(f"{role}.override.{name}" for role, known in KNOWN.items() for name in sorted(known)),
        "spark.app.name",
        "transforms",
        "max.poll.records",
    ]
)
likely = st.sampled_from(
    [
        *(value for option in OPTIONS for value in option.form.values),
        *(option.default for option in OPTIONS if option.default),
        "{{topic}}-{{partition}}",
        "field:a.b",
        "template:{{topic}}",
        "${env:HOME}",
        "${env:NOT_THERE}",
        "${file:/x:y}",
        "http://h:1/q",
        "/tls/x.p12",
        "/tls/x.pem",
        "PEM",
        JAAS.format("x"),
        "-1",
        "0",
        "99999999999999999999",
        "local[2]",
        "",
        " ",
    ]
)
scalars = st.one_of(likely, st.text(), st.integers(), st.floats(), st.booleans())
fitting = st.dictionaries(
    st.sampled_from([option for option in OPTIONS if option.form.values or option.default]),
    st.integers(min_value=0, max_value=20),
    max_size=4,
).map(
    lambda picked: {
        option.name: [*option.form.values, option.default or ""][at % (len(option.form.values) + 1)]
        for option, at in picked.items()
    }
)
odd = st.one_of(st.none(), st.lists(st.text(), max_size=2), st.dictionaries(st.text(), st.text(), max_size=2))


def outcome(text: str, kind: str = "json", **environment: str) -> Settings | SettingsError:
    """Return what a text gives; anything but settings and a SettingsError comes through as what it is."""
    try:
        return load(
            text,
            kind="json" if kind == "json" else "properties",
            environment={"HOME": "/h", **environment},
            read_file=no_file,
        )
    except SettingsError as error:
        return error


@settings(max_examples=examples(300))
@given(
    st.one_of(st.dictionaries(st.one_of(names, st.text()), st.one_of(scalars, odd), max_size=12), fitting),
    st.booleans(),
)
def test_any_mapping_gives_settings_or_a_settings_error(mapping: dict[str, object], complete: bool) -> None:
    """Any mapping gives settings or a settings error; what gives settings can be shown and pickled."""
    found = outcome(json.dumps({**COMPLETE, **mapping} if complete else mapping))

    if isinstance(found, SettingsError):
        assert found.problems
        assert str(found)
    else:
        assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 - our own bytes
        assert describe(found)["name"]


@given(st.text(), st.sampled_from(["json", "properties"]))
def test_any_text_gives_settings_or_a_settings_error(text: str, kind: str) -> None:
    """Any text gives settings or a settings error."""
    found = outcome(text, kind)

    assert isinstance(found, SettingsError)
    assert found.problems


SECRETS = (
    "aws.secret.access.key",
    "aws_secret_access_key",
    "aws.session.token",
    "schema.registry.basic.auth.user.info",
    "value.converter.basic.auth.user.info",
    "sasl.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "producer.override.sasl.password",
    "admin.override.sasl.jaas.config",
    "consumer.override.ssl.keystore.password",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.access.key",
    "spark.authenticate.secret",
    "spark.driver.extraJavaOptions",
    "spark.hadoop.fs.s3a.encryption.key",
    "spark.hadoop.fs.s3a.bucket.one.server-side-encryption.key",
    "spark.hadoop.fs.azure.account.key.one.dfs.core.windows.net",
    "spark.hadoop.ssl.server.keystore.pass",
    "aws.secret.acces.key",
    "producer.override.sasl.pasword",
    "hadoop.password",
)


def as_given(name: str, secret: str) -> str:
    """Return a secret in the form that its option asks for."""
    if name.endswith("jaas.config"):
        return JAAS.format(f'"{secret}"')
    if name.endswith("user.info"):
        return f"user:{secret}"
    if name.endswith("JavaOptions"):
        return f"-Djavax.net.ssl.keyStorePassword={secret}"
    return secret


@settings(max_examples=examples(200))
@given(
    st.sets(st.sampled_from(SECRETS), min_size=1, max_size=6),
    st.sampled_from(["", " with a blank", '"', "\\", "=;", "é"]),
    st.booleans(),
    st.dictionaries(names, likely, max_size=3),
)
def test_no_secret_is_ever_shown(
    given_names: set[str],
    tail: str,
    by_reference: bool,
    others: dict[str, str],
) -> None:
    """No secret is ever shown: not in repr, not in what is described, not in a problem, not by asdict."""
    secret = "hunter2-" + "x" * 8
    environment = {
        f"SECRET_{at}": as_given(name, secret + tail) for at, name in enumerate(sorted(given_names))
    }
    mapping = {
        **COMPLETE,
        **others,
        **{
            name: f"${{env:SECRET_{at}}}" if by_reference else environment[f"SECRET_{at}"]
            for at, name in enumerate(sorted(given_names))
        },
    }

    found = outcome(json.dumps(mapping), **environment)

    if isinstance(found, SettingsError):
        told = [str(found), repr(found), *map(repr, found.problems)]
    else:
        told = [
            repr(found),
            str(found),
            repr(describe(found)),
            repr(found.warnings),
            repr(dataclasses.asdict(found)),
        ]
    assert not any("hunter2" in text for text in told)


@pytest.mark.parametrize(
    "option",
    ["aws.s3.endpoint", "sqs.endpoint", "sqs.queue.url", "schema.registry.url", "aws.sts.config.endpoint"],
)
@pytest.mark.parametrize("url", ["https://me:{}@host/q", "https://me:a/{}#?@host/q", "me:{}@host:80"])
def test_the_password_of_a_url_is_not_shown(option: str, url: str) -> None:
    """The password of a URL is not shown."""
    found = outcome(json.dumps({**COMPLETE, option: url.format("hunter2")}))

    assert "hunter2" not in str(found) + repr(found)
    assert isinstance(found, SettingsError) or "hunter2" not in repr(describe(found))


def test_a_secret_shows_as_stars_and_survives_copies() -> None:
    """A secret shows as stars and survives copies."""
    secret = Secret("hunter2")

    assert f"{secret} {secret!r} {secret!s} {[secret]}" == "*** *** *** [***]"
    assert pickle.loads(pickle.dumps(secret)) == copy.deepcopy(secret) == secret  # noqa: S301 - our own bytes
    assert secret != Secret("other")
    assert secret != "hunter2"
    assert len({secret, Secret("hunter2")}) == 1
    assert secret.reveal() == "hunter2"


@pytest.mark.parametrize("option", [option.name for option in OPTIONS if option.is_secret])
def test_a_secret_option_is_one_by_its_name(option: str) -> None:
    """As part of another name too: after a route's, or as another tool calls it."""
    assert is_secret_name(f"other.{option}")
    assert is_secret_name(option.removeprefix("aws."))


@pytest.mark.parametrize("option", [option.name for option in OPTIONS if not option.is_secret])
def test_no_other_option_is(option: str) -> None:
    """What is hidden without need cannot be compared with what was given."""
    assert not is_secret_name(option)


@pytest.mark.parametrize(
    "option", ["spark.io.encryption.keySizeBits", "spark.io.encryption.keygen.algorithm", "s3.sse.kms.key.id"]
)
def test_what_tells_of_a_key_is_no_key(option: str) -> None:
    """Its size, its maker, its id."""
    assert not is_secret_name(option)
