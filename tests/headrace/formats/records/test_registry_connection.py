"""Whose fault it is when a schema registry cannot be asked: no schema's and no record's, whatever fails."""

import json
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from headrace.conversion.sink_records import RecordConverter
from headrace.formats.converters.registry_schemas import ConfluentStore, NoSchema, SchemaKind, SchemaText
from headrace.formats.records.registry import frame, latest
from headrace.formats.records.registry_connection import Tokens, registry_client
from headrace.model.errors import AccessDenied, HeadraceError, InvalidObject, SourceUnavailable
from headrace.options.schema_settings import RegistrySettings
from headrace.options.secret import properties
from headrace.options.sink_settings import ConverterKind, ConverterSettings, OutputFormat
from tests.headrace.formats.encoding.outputs import converters, fetched, output
from tests.headrace.formats.encoding.registry import http_registry, registry
from tests.headrace.options.loading import problems_with

_SCHEMA: Final = "/schemas/ids/1"
_STRING: Final = '"string"'


def _read(settings: RegistrySettings) -> Any:
    return ConfluentStore(settings, SchemaKind.AVRO).schema(1)


def _write(settings: RegistrySettings) -> Any:
    return frame(settings, "orders-value", _STRING)


def _write_by_latest(settings: RegistrySettings) -> Any:
    return latest(settings, "orders-value")


_EACH_WAY: Final = [
    pytest.param(_read, id="a sink"),
    pytest.param(_write, id="a source"),
    pytest.param(_write_by_latest, id="a source by the newest schema"),
]
Way = Callable[[RegistrySettings], Any]


def _by_tokens(settings: RegistrySettings, issuer: str) -> RegistrySettings:
    given = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": issuer,
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "shh",
        "bearer.auth.scope": "",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }
    return replace(settings, properties=properties(given))


@pytest.mark.parametrize(
    ("url", "is_verified"),
    [
        ("http://without.example", False),
        ("https://with.example", True),
        ("http://without.example,https://with.example", True),
    ],
)
def test_certificates_are_read_where_one_can_be_looked_at(url: str, is_verified: bool) -> None:
    """The library's bundle is 25 ms of CPU; without TLS nobody shows a certificate."""
    rest = registry_client(replace(registry(url), urls=tuple(url.split(","))))._rest_client

    assert (rest.verify.verify_mode is ssl.CERT_REQUIRED) is rest.verify.check_hostname is is_verified
    assert bool(rest.verify.cert_store_stats()["x509_ca"]) is is_verified


@pytest.mark.parametrize("way", _EACH_WAY)
@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"ssl.ca.location": "/missing.pem"}, ["schema.registry.ssl.ca.location", "No such file"]),
        ({"ssl.ca.location": __file__}, ["schema.registry.ssl.ca.location", "NO_CERTIFICATE"]),
        (
            {"ssl.ca.location": __file__, "ssl.certificate.location": "/missing.pem"},
            ["correct schema.registry.ssl.certificate.location or"],
        ),
    ],
)
def test_a_client_that_cannot_be_made_is_no_records_fault(
    way: Way, files: dict[str, str], named: list[str]
) -> None:
    """A plain exception was taken for a defect at each record, and killed a source's task."""
    settings = replace(registry("https://127.0.0.1:9"), properties=properties(files))

    with pytest.raises(AccessDenied) as caught:
        way(settings)

    assert all(one in str(caught.value) for one in named)


@pytest.mark.parametrize(
    ("name", "text"),
    [("ALL_PROXY", "socks5://proxy:1080"), ("HTTPS_PROXY", "http://me:hidden@proxy:abc")],
)
def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Without what its address holds."""
    monkeypatch.setenv(name, text)

    with pytest.raises(AccessDenied, match=name) as caught:
        _read(registry("https://127.0.0.1:9"))

    assert "hidden" not in str(caught.value)


def test_a_file_that_is_mounted_later_is_read(tmp_path: Path) -> None:
    """A client that could not be made is not remembered."""
    path = tmp_path / "ca.pem"
    with http_registry({_SCHEMA: (200, {"schema": _STRING})}) as (one, _):
        settings = replace(one, properties=properties({"ssl.ca.location": str(path)}))
        with pytest.raises(AccessDenied):
            _read(settings)
        path.mkdir()  # a folder of certificates may be empty
        assert _read(settings) == SchemaText(_STRING)


@pytest.mark.parametrize("way", _EACH_WAY)
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ((401, {"error": "invalid_client", "error_description": "bad"}), AccessDenied),
        ((400, {"error": "invalid_scope"}), AccessDenied),
        ((403, b"<html>"), AccessDenied),
        ((400, {"error": "temporarily_unavailable"}), SourceUnavailable),
        ((503, b"<html>"), SourceUnavailable),
        ((404, b"default backend"), SourceUnavailable),
        ((200, b"<html>"), SourceUnavailable),
        ((200, {"token_type": "bearer"}), SourceUnavailable),
    ],
)
def test_an_issuer_that_gives_no_token_is_no_records_fault(
    way: Way, answer: tuple[int, Any], kind: type[HeadraceError]
) -> None:
    """What it refuses a person corrects; all else is asked for again."""
    with http_registry({"/token": answer}) as (one, asked):
        settings = _by_tokens(one, f"{one.urls[0]}/token")
        for _again in range(2):
            with pytest.raises(kind, match=r"schema\.registry\.bearer\.auth\.issuer") as caught:
                way(settings)
            assert type(caught.value) is kind
            assert "shh" not in str(caught.value)

    assert set(asked) == {"/token"}


def test_an_issuer_that_is_away_is_waited_for() -> None:
    """Its address is named, not the registry's."""
    with pytest.raises(SourceUnavailable, match=r"schema\.registry\.bearer\.auth\.issuer\.endpoint\.url"):
        _read(_by_tokens(registry("http://127.0.0.1:9"), "http://127.0.0.1:9/token"))


@pytest.mark.parametrize(
    ("life", "seconds"), [({}, 48), ({"expires_in": 100}, 80), ({"expires_in": "100"}, 80)]
)
def test_a_token_is_used_until_shortly_before_its_end(life: dict[str, Any], seconds: int) -> None:
    """One whose life is not said was the registry's fault from the second question on."""
    now_ms = 1_000_000
    with http_registry({"/token": (200, {"access_token": "t", "token_type": "bearer", **life})}) as (
        one,
        asked,
    ):
        given = dict(_by_tokens(one, f"{one.urls[0]}/token").client())
        tokens = Tokens(given, 10.0, now_ms=lambda: now_ms)
        for after, times in ((0, 1), (seconds * 1000 - 1, 1), (1, 2)):
            now_ms += after
            assert tokens.fields({}) == {
                "bearer.auth.token": "t",
                "bearer.auth.logical.cluster": "lsrc-1",
                "bearer.auth.identity.pool.id": "pool-1",
            }
            assert len(asked) == times


def test_a_token_whose_life_is_not_said_is_used_for_the_next_schema() -> None:
    """The registry is asked with it, and not the issuer again."""
    token = {"access_token": "t", "token_type": "bearer"}
    schemas = {f"/schemas/ids/{number}": (200, {"schema": _STRING}) for number in range(2)}
    with http_registry({"/token": (200, token), **schemas}) as (one, asked):
        store = ConfluentStore(_by_tokens(one, f"{one.urls[0]}/token"), SchemaKind.AVRO)
        assert [store.schema(number) for number in range(2)] == [SchemaText(_STRING)] * 2

    assert asked == ["/token", "/schemas/ids/0", "/schemas/ids/1"]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_registry_that_does_not_answer_is_not_waited_for_without_end(count: int) -> None:
    """A task that says nothing for 105 s is given up, and its objects with it after three times."""
    one = registry("http://127.0.0.1:9")
    client = registry_client(replace(one, urls=one.urls * count))._rest_client
    attempts, limit = client.max_retries + 1, client.session.timeout
    pauses = sum(client.retries_wait_ms * 2**number / 1000 for number in range(client.max_retries))

    assert count * (attempts * (limit.connect + limit.read) + pauses) + limit.connect + limit.read <= 90
    assert limit.read >= 5


def test_the_address_that_has_answered_is_asked_first_from_then_on() -> None:
    """One that hangs was waited for with each schema: with several for longer than a task may be silent."""
    ids = [f"/schemas/ids/{number}" for number in range(3)]
    away: dict[str, tuple[int, Any]] = dict.fromkeys(ids, (503, b"<html>"))
    with (
        http_registry(away) as (first, of_first),
        http_registry(dict.fromkeys(ids, (200, {"schema": _STRING}))) as (second, of_second),
    ):
        store = ConfluentStore(replace(first, urls=first.urls + second.urls), SchemaKind.AVRO)
        assert [store.schema(number) for number in range(3)] == [SchemaText(_STRING)] * 3

    assert of_first == [ids[0]] * 2
    assert of_second == ids


@pytest.mark.parametrize(("away", "there"), [("/r-1", "/r-10"), ("", "/r"), ("/r", "/r/s")])
def test_an_address_that_begins_as_another_is_told_from_it(away: str, there: str) -> None:
    """Else the other one would stay the first."""
    ids = [f"/schemas/ids/{number}" for number in range(3)]
    answers: dict[str, tuple[int, Any]] = dict.fromkeys([away + each for each in ids], (503, b"<html>"))
    answers |= dict.fromkeys([there + each for each in ids], (200, {"schema": _STRING}))
    with http_registry(answers) as (one, asked):
        urls = (one.urls[0] + away, one.urls[0] + there)
        store = ConfluentStore(replace(one, urls=urls), SchemaKind.AVRO)
        assert [store.schema(number) for number in range(3)] == [SchemaText(_STRING)] * 3

    assert asked == [away + ids[0]] * 2 + [there + each for each in ids]


def test_an_address_that_fails_later_leads_to_the_next() -> None:
    """It is the last one asked then, not the only one."""
    answers: dict[str, tuple[int, Any]] = {_SCHEMA: (200, {"schema": _STRING})}
    with http_registry(answers) as (first, _):
        with http_registry(answers | {"/schemas/ids/2": (404, {"error_code": 40403})}) as (second, _):
            urls = ("http://127.0.0.1:9", *second.urls, *first.urls)
            store = ConfluentStore(replace(first, urls=urls), SchemaKind.AVRO)
            assert isinstance(store.schema(2), NoSchema)
        assert store.schema(1) == SchemaText(_STRING)


@pytest.mark.parametrize("way", [_write, _write_by_latest])
@pytest.mark.parametrize(
    ("status", "body", "is_refused"),
    [
        (409, {"error_code": 409, "message": "incompatible"}, True),
        (409, {"error_code": 40901, "message": "incompatible"}, True),
        (422, {"error_code": 42201, "message": "invalid"}, True),
        (404, {"error_code": 40401, "message": "no subject"}, True),
        (404, {"error_code": 40402, "message": "no version"}, True),
        (404, {"error_code": 40403, "message": "no schema"}, True),
        (422, {"error_code": 42205, "message": "read-only mode"}, False),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}, False),
        (404, b"default backend - 404", False),
        (409, b"<html>", False),
        (422, {"message": "no code"}, False),
        (400, b"<html>", False),
        (302, b"", False),
        (405, b"", False),
        (421, b"", False),
    ],
)
def test_only_the_registrys_own_word_of_a_schema_refuses_it(
    way: Way, status: int, body: Any, *, is_refused: bool
) -> None:
    """What an ingress answers while the registry restarts quarantined every object."""
    subject = "/subjects/orders-value"
    answers = dict.fromkeys((subject, f"{subject}/versions", f"{subject}/versions/latest"), (status, body))
    with http_registry(answers) as (one, _), pytest.raises(HeadraceError) as caught:
        way(one)

    assert type(caught.value) is (InvalidObject if is_refused else SourceUnavailable)


@pytest.mark.parametrize("way", _EACH_WAY)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409])
def test_what_a_registry_answers_is_shown_in_a_bounded_length(way: Way, status: int) -> None:
    """It is in the log, in problems and in the ledger, whose records have a limit."""
    body = {"error_code": status, "message": "\x1b[31m" + "x" * 2_000_000}
    subject = "/subjects/orders-value"
    paths = (_SCHEMA, subject, f"{subject}/versions", f"{subject}/versions/latest")
    for found in (body, json.dumps(body).encode()[:-1]):
        answers = dict.fromkeys(paths, (status, found))
        with http_registry(answers) as (one, _), pytest.raises(HeadraceError) as caught:
            way(one)
        assert len(str(caught.value)) < 1000
        assert "\x1b" not in str(caught.value)


def test_what_is_quoted_of_a_schema_is_bounded_and_can_be_sent() -> None:
    """A dead letter has it in a header, which lone surrogates end; and the log has it in a line."""
    schema = {"type": "object", "properties": {"x": {"$ref": "\ud800" + "y" * 2_000_000}}}
    found = {"schema": json.dumps(schema), "schemaType": "JSON"}
    with http_registry({_SCHEMA: (200, found)}) as (one, _):
        kind = ConverterSettings(kind=ConverterKind.JSON_SCHEMA, registry=one)
        by_columns = RecordConverter(converters(kind), output(OutputFormat.PARQUET))
        (fault,) = by_columns.convert(fetched([b"\0\0\0\0\x01{}"])).faults

    assert fault.reason == "schema_unsupported"
    assert len(fault.message.encode()) < 1000


def test_a_key_without_its_certificate_is_refused_at_the_start() -> None:
    """The client would refuse it with each question."""
    given = {"value.format": "avro", "input.format": "avro", "schema.registry.url": "https://r"}

    assert (
        "schema.registry.ssl.key.location = '/k.pem': needs schema.registry.ssl.certificate.location"
        in map(str, problems_with({**given, "schema.registry.ssl.key.location": "/k.pem"}))
    )
