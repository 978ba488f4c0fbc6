"""What the sinks of Kafka Connect have in common: converters from the connector or its worker."""

from collections.abc import Mapping
from typing import Final

import pytest

from headrace.names.archive_names import LayoutName
from headrace.options.given import Problems
from headrace.options.references import References
from headrace.options.vendor import Fate, Vendor
from headrace.options.vendor_translation import translate
from headrace.vendors.connect.options import CONNECT_OPTIONS, translate_connect
from tests.headrace.options.loading import no_file

_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_SIMPLE: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_BOTH: Final = {"key.converter": _STRING, "value.converter": _JSON}


_SINK: Final = Vendor(
    name="a sink of Kafka Connect",
    layout=LayoutName.HEADRACE,
    classes=("org.example.Sink",),
    options=CONNECT_OPTIONS,
    translate=translate_connect,
)


def _translated(
    given: Mapping[str, str], worker: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    problems = Problems()
    references = References(environment={}, read_file=no_file)
    found = translate(_SINK, given, worker=worker or {}, references=references, problems=problems)
    options = {name: text for name, text in found.options.items() if name != "connector.class"}
    return options, [str(problem) for problem in problems]


def test_converters_are_kept_with_their_options() -> None:
    """But for those on which nothing depends."""
    given = {
        **_BOTH,
        "header.converter": _STRING,
        "value.converter.schemas.enable": "false",
        "value.converter.schemas.cache.size": "10",
    }

    assert _translated(given) == (
        {**_BOTH, "header.converter": _STRING, "value.converter.schemas.enable": "false"},
        [],
    )


def test_absent_converters_are_the_workers() -> None:
    """With the worker's options of that converter, and without them where the connector names its own."""
    worker = {
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
    }

    assert _translated({"value.converter": _STRING}, worker)[0] == {
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _STRING,
        "header.converter": _SIMPLE,
    }


@pytest.mark.parametrize("absent", sorted(_BOTH))
def test_a_converter_that_nobody_names_is_a_problem(absent: str) -> None:
    """The sentence says what to add."""
    _, problems = _translated({name: text for name, text in _BOTH.items() if name != absent})

    assert [problem.partition(";")[0] for problem in problems] == [f"{absent}: is missing"]


@pytest.mark.parametrize(
    ("option", "fate"),
    [
        ("value.converter.schemas.enable", Fate.KEPT),
        ("key.converter.schemas.cache.size", Fate.NEEDLESS),
        ("errors.retry.delay.max.ms", Fate.NEEDLESS),
    ],
)
def test_the_first_row_that_matches_is_an_options(option: str, fate: Fate) -> None:
    """Rows of single options stand before those of families."""
    assert next(row.fate for row in CONNECT_OPTIONS if row.matches(option)) is fate


_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
_PROTOBUF: Final = "io.confluent.connect.protobuf.ProtobufConverter"
_JSON_SCHEMA: Final = "io.confluent.connect.json.JsonSchemaConverter"


@pytest.mark.parametrize(
    ("converter", "suffix", "text"),
    [
        (_STRING, "schemas.enable", "false"),
        (_STRING, "enhanced.avro.schema.support", "true"),
        (_STRING, "encoding", "UTF-8"),
        (_JSON, "replace.null.with.default", "true"),
        (_JSON, "decimal.format", "NUMERIC"),
        (_JSON_SCHEMA, "object.additional.properties", "false"),
        (_AVRO, "context.name.strategy", "org.example.Strategy"),
        (_AVRO, "avro.use.logical.type.converters", "false"),
        (_AVRO, "schemas.enable", "true"),
        (_AVRO, "enhanced.avro.schema.support", "false"),
        (_AVRO, "connect.meta.data", "true"),
        (_AVRO, "scrub.invalid.names", "true"),
        (_AVRO, "specific.avro.reader", "true"),
        (_AVRO, "latest.cache.ttl.sec", "60"),
        (_AVRO, "auto.register.schemas", "false"),
        (_AVRO, "value.subject.name.strategy", "org.example.Strategy"),
        (_AVRO, "http.read.timeout.ms", "60000"),
        (_AVRO, "schema.registry.ssl.endpoint.identification.algorithm", "https"),
        (_AVRO, "ssl.endpoint.identification.algorithm", ""),
    ],
)
def test_a_converters_option_that_decides_nothing_is_left_out(converter: str, suffix: str, text: str) -> None:
    """It is accepted, whatever its value, where nothing of what is read depends on it."""
    given = {**_BOTH, "value.converter": converter, f"value.converter.{suffix}": text}

    options, problems = _translated(given)
    assert problems == []
    assert f"value.converter.{suffix}" not in options


@pytest.mark.parametrize(
    ("converter", "suffix", "text"),
    [
        (_AVRO, "enhanced.avro.schema.support", "true"),
        (_AVRO, "flatten.unions", "true"),
        (_AVRO, "connect.meta.data", "false"),
        (_JSON, "replace.null.with.default", "false"),
        (_PROTOBUF, "optional.for.nullables", "true"),
        (_JSON_SCHEMA, "json.fail.invalid.schema", "true"),
    ],
)
def test_what_would_change_what_is_read_is_refused(converter: str, suffix: str, text: str) -> None:
    """Not passed over, nor called an option that nobody knows; the worker's as the connector's own."""
    option = f"value.converter.{suffix}"
    worker = {**_BOTH, "value.converter": converter, option: text}

    (problem,) = _translated(worker)[1]
    assert problem.startswith(f"{option} = {text!r}: has values read otherwise than with ")
    del_own = {name: given for name, given in _BOTH.items() if name != "value.converter"}
    (problem,) = _translated(del_own, worker)[1]
    assert problem.startswith(f"value.converter: is that of the worker's file, whose {option}={text} has")


def test_nulls_of_json_without_schemas_have_no_default() -> None:
    """Connect never looks at the option there, and Debezium's users set it."""
    option = "value.converter.replace.null.with.default"
    given = {
        **_BOTH,
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
        option: "false",
    }
    own = {name: text for name, text in _BOTH.items() if name != "value.converter"}

    for options, problems in (_translated(given), _translated(own, given)):
        assert problems == []
        assert option not in options


@pytest.mark.parametrize("text", ["", "none"])
def test_a_check_of_the_registrys_name_that_is_to_be_left_out_is_refused(text: str) -> None:
    """An empty line passed without a word, and the check was made."""
    option = "value.converter.schema.registry.ssl.endpoint.identification.algorithm"

    (problem,) = _translated({**_BOTH, "value.converter": _AVRO, option: text})[1]
    assert problem.startswith(f"{option} = {text!r}: leaves out the check of the registry's name")


def test_options_of_the_workers_converter_are_the_workers() -> None:
    """As in Connect, which does not ask the connector about a converter that it does not name."""
    given = {"key.converter": _STRING, "value.converter.schemas.enable": "true"}
    worker = {"value.converter": _JSON, "value.converter.schemas.enable": "false"}

    options, problems = _translated(given, worker)
    assert problems == []
    assert options["value.converter.schemas.enable"] == "false"
