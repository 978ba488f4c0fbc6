"""Who may create connectors may not read a worker's variables and files by what is said of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.kafka.control_records import ConnectorRecord, TargetState
from headrace.model.errors import AccessDenied, HeadraceError, Unavailable
from headrace.options import SettingsError
from headrace.options.describe import unresolved
from headrace.options.references import led_to, with_references
from ingest.connect.connector_loading import Loading
from ingest.connect.hosted_connector import HostedOffsets, HostedPort
from ingest.connect.worker_view import shown_connector
from ingest.http.rest.port import AskedCondition, ConnectorCondition, InvalidOffsets, NotLeading
from ingest.http.snapshot import QuarantinedObject, Snapshot
from tests.ingest.connect.test_changes_of_lost_pasts import _CONFLUENT
from tests.ingest.connect.test_worker_changes import SINK, SOURCE, Worker, load_text, worker_settings

_LENSES = {
    "connector.class": "io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",
    "topics": "t",
    "connect.s3.kcql": "INSERT INTO bucket-one SELECT * FROM t STOREAS `JSON`",
    "connect.s3.aws.region": "us-east-1",
}
_SECRETS = ("hunter2((", "hunter2", "hunter2 x,y", "INSERT hunter2", "hunter2:1/x", "a'hunter2\n\"")


@pytest.mark.parametrize("secret", _SECRETS)
@pytest.mark.parametrize(
    ("config", "option"),
    [
        (SOURCE, "tasks.max"),
        (SOURCE, "transforms"),
        (SOURCE, "predicates"),
        (SOURCE, "file.name.template"),
        (SOURCE, "sidecars.tombstones.directory"),
        (SOURCE, "connector.class"),
        (SINK, "topics"),
        (SINK, "topics.regex"),
        ({**SINK, "routes": "a"}, "route.a.topics"),
        (SINK, "file.name.template"),
        (_CONFLUENT, "s3.region"),
        (_CONFLUENT, "topics"),
        (_LENSES, "topics"),
        (_LENSES, "connect.s3.kcql"),
        (_LENSES, "connect.s3.http.max.retries"),
    ],
)
def test_what_a_reference_leads_to_is_in_no_answer(
    tmp_path: Path, config: dict[str, str], option: str, secret: str
) -> None:
    """Whatever of it a sentence names: the whole, an item, a word."""
    file = tmp_path / "file"
    file.write_text(secret)
    worker = Worker()
    given = {**config, option: f"${{dir:{tmp_path}:file}}"}
    _, answer = worker.ask("PUT", "/connectors/c/config", given)
    _, judged = worker.ask("PUT", f"/connector-plugins/{_plugin(config)}/config/validate", given)

    for shown in (answer, judged):
        assert "hunter2" not in json.dumps(shown)


@pytest.mark.parametrize(
    ("secret", "at"),
    [
        ("correct horse battery", 1),
        ("INSERT INTO horse battery", 19),
        ("INSERT INTO a-b SELECT * FROM t PROPERTIES('horse'=1)", 44),
        ("INSERT INTO b SELECT * FROM t 'horse", 31),
    ],
)
def test_an_error_of_kcql_names_the_place_and_no_word_of_it(tmp_path: Path, secret: str, at: int) -> None:
    """Words of letters are no secrets anywhere else, and each token of a statement may be named."""
    (tmp_path / "file").write_text(secret)
    given = {**_LENSES, "connect.s3.kcql": f"${{dir:{tmp_path}:file}}"}
    status, answer = Worker().ask("PUT", "/connectors/c/config", given)

    assert status == 400
    assert f"what its references lead to is wrong at character {at};" in answer["message"]
    assert not any(word in answer["message"] for word in ("correct", "horse", "battery"))
    _, plain = Worker().ask("PUT", "/connectors/c/config", {**given, "connect.s3.kcql": secret})
    assert "^" in plain["message"]


_SOURCE = "io.lenses.streamreactor.connect.aws.s3.source.S3SourceConnector"


@pytest.mark.parametrize(
    ("secret", "changes"),
    [
        ("INSERT INTO b SELECT * FROM horse; INSERT INTO c SELECT * FROM horse", {}),
        ("INSERT INTO b SELECT * FROM orders; INSERT INTO c SELECT * FROM horse", {}),
        ("INSERT INTO b SELECT * FROM t; INSERT INTO c SELECT * FROM horse", {"topics.regex": "t"}),
        ("INSERT INTO b SELECT * FROM `*`; INSERT INTO c SELECT * FROM horse", {"topics.regex": "t.*"}),
        ("INSERT INTO t SELECT * FROM b:p PROPERTIES('horse'=1)", {"connector.class": _SOURCE}),
    ],
)
def test_a_problem_of_a_statement_repeats_no_word_of_it(
    tmp_path: Path, secret: str, changes: dict[str, str]
) -> None:
    """Its topics and properties too, which are words of the text that a reference leads to."""
    (tmp_path / "file").write_text(secret)
    given = {**_LENSES, "connect.s3.kcql": f"${{dir:{tmp_path}:file}}", **changes}
    if changes:
        del given["topics"]
    status, answer = Worker().ask("PUT", "/connectors/c/config", given)

    assert status == 400
    assert "(text of a reference)" in answer["message"]
    assert "horse" not in answer["message"]
    _, plain = Worker().ask("PUT", "/connectors/c/config", {**given, "connect.s3.kcql": secret})
    assert "horse" in plain["message"]


@pytest.mark.parametrize("routed", [{}, {"transforms": "r"}])
def test_a_topic_without_a_statement_is_not_repeated(tmp_path: Path, routed: dict[str, str]) -> None:
    """Words of letters are looked for nowhere else in a sentence."""
    (tmp_path / "file").write_text("t,horse")
    given = {**_LENSES, **_ROUTED} if routed else dict(_LENSES)
    status, answer = Worker().ask(
        "PUT", "/connectors/c/config", {**given, "topics": f"${{dir:{tmp_path}:file}}"}
    )

    assert status == 400
    assert "(text of a reference): has no statement" in answer["message"]
    assert "horse" not in answer["message"]
    _, plain = Worker().ask("PUT", "/connectors/c/config", {**given, "topics": "t,horse"})
    assert "horse" in plain["message"]


_ROUTED = {
    "transforms": "r",
    "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": "(.*)",
    "transforms.r.replacement": "$1-racing",
}


def _plugin(config: dict[str, str]) -> str:
    return config["connector.class"].rpartition(".")[2]


def test_an_option_is_named_as_it_was_given(tmp_path: Path) -> None:
    """Also where a reference leads to the same text; and short texts are not looked for."""
    (tmp_path / "file").write_text("part.size")
    (tmp_path / "short").write_text("many")
    config = {
        **_CONFLUENT,
        "s3.part.size": f"${{dir:{tmp_path}:file}}",
        "tasks.max": f"${{dir:{tmp_path}:short}}",
        "flush.size": "few",
    }
    record = ConnectorRecord(name="c", config={**config, "name": "c"}, at_ms=0)
    with pytest.raises(SettingsError) as raised:
        Loading(worker_settings(), load_text)(record)

    assert {one.option for one in raised.value.problems} >= {"s3.part.size", "tasks.max", "flush.size"}
    assert "flush.size = 'few': " in str(raised.value)


@pytest.mark.parametrize(
    ("raw", "text", "found"),
    [
        ("${env:A}", "x", [("${env:A}", "x")]),
        ("a${env:A}.${file:/f:k}b", "ax y.zb", [("${env:A}", "x y"), ("${file:/f:k}", "z")]),
        ("(${dir:/d:f}", "(\n", [("${dir:/d:f}", "\n")]),
        ("plain", "plain", []),
        ("${env:A}-", "another", []),
    ],
)
def test_each_reference_has_its_text(raw: str, text: str, found: list[Any]) -> None:
    """By what is around it; none where that is another."""
    assert list(led_to(raw, text)) == found


@pytest.mark.parametrize(
    ("text", "sentence", "shown"),
    [
        ("hunter2", "'hunter2' and hunter22, xhunter2", "'${env:A}' and hunter22, xhunter2"),
        ("topic", "a topic", "a topic"),
        ("password", "'${file:/f:password}': password", "'${file:/f:password}': ${env:A}"),
        ("100", "from 1 to 100", "from 1 to 100"),
        ("expected one of", "expected one of a", "${env:A} a"),
        ("INSERT now", "INSERT is expected", "INSERT is expected"),
        ("", "", ""),
    ],
)
def test_only_whole_words_that_tell_something_are_replaced(text: str, sentence: str, shown: str) -> None:
    """A sentence keeps its sense."""
    assert with_references(sentence, [("${env:A}", text)]) == shown


@pytest.mark.parametrize(
    ("named", "option", "advice"),
    [
        ("io.example.S3SinkConnector", "connector.class", "io.confluent.connect.s3.S3SinkConnector"),
        (
            "io.confluent.connect.s3.S3SinkConnektor",
            "connector.class",
            "did you mean io.confluent.connect.s3.S3Si",
        ),
        ("com.example.JsonConverter", "value.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ],
)
def test_advice_about_a_class_is_whole(tmp_path: Path, named: str, option: str, advice: str) -> None:
    """Though words of it are those of what a reference leads to, which is not shown."""
    (tmp_path / "file").write_text(named)
    given = {**_CONFLUENT, option: f"${{dir:{tmp_path}:file}}"}
    status, answer = Worker().ask("PUT", "/connectors/c/config", given)

    assert status == 400
    assert advice in answer["message"]
    assert f".${{dir:{tmp_path}:file}}" not in answer["message"]
    assert named not in answer["message"]
    if option == "connector.class":
        assert "/connector-plugins/{connectorType}/config/validate" in answer["message"]


def test_of_a_class_that_is_not_there_nothing_else_is_said() -> None:
    """It decides which options there are."""
    given = {**_CONFLUENT, "connector.class": "${env:NOPE}"}
    _, answer = Worker().ask("PUT", "/connectors/c/config", given)

    assert (
        "contains the following 1 error(s):\nconnector.class: the environment variable NOPE"
        in answer["message"]
    )


def test_the_failure_of_a_connector_names_references() -> None:
    """As a bucket's name is, where there is no such bucket."""
    record = ConnectorRecord(name="c", config={**SOURCE, "name": "c", "topic": "${env:BUCKET}"}, at_ms=0)
    settings = Loading(worker_settings(), load_text)(record)

    assert unresolved(str(Unavailable("no 'bucket'.")), settings) == "no '${env:BUCKET}'."


_TOLD = "s3://bucket/ is refused."
_SHOWN = "s3://${env:BUCKET}/ is refused."
_LED_TO = {**SOURCE, "name": "c", "aws.s3.bucket.name": "${env:BUCKET}"}


@dataclass
class _Running:
    """A connector that runs, and names its bucket in whatever it says."""

    error: HeadraceError

    def condition(self) -> ConnectorCondition:
        """Running with a problem."""
        return ConnectorCondition(target=TargetState.RUNNING, problems=(_TOLD,), slots=())

    def ask_condition(self) -> AskedCondition:
        """The same."""
        return lambda _seconds: self.condition()

    def __getattr__(self, _name: str) -> Any:
        """All else is refused."""

        def refuse(*_given: object) -> Any:
            raise self.error

        return refuse


def _life(error: HeadraceError, **shown: Any) -> Any:
    """What is asked of `HostedConnector`."""
    snapshot = Snapshot(name="c", version="1", **{"role": "leader", **shown})
    return SimpleNamespace(
        settings=Loading(worker_settings(), load_text)(ConnectorRecord(name="c", config=_LED_TO, at_ms=0)),
        failure=None,
        shown_failure=None,
        connector=SimpleNamespace(port=_Running(error), snapshot_holder=SimpleNamespace(snapshot=snapshot)),
    )


def test_the_problems_of_one_that_runs_name_references() -> None:
    """In a `trace`, asked alone or among all, and in what `http.listen` shows."""
    life = _life(Unavailable(_TOLD), problems={"listing": _TOLD}, last_error=_TOLD)
    port = HostedPort(life, None)

    for condition in (port.condition(), port.ask_condition()(1.0)):
        assert condition.problems == (_SHOWN,)
    shown = shown_connector(life)
    assert (shown["problems"], shown["last_error"]) == ({"listing": _SHOWN}, _SHOWN)


def test_names_in_the_status_of_one_that_runs_are_those_that_references_lead_to() -> None:
    """As docs/worker.md has it: several buckets are told apart, and commands take what is shown."""
    ended: dict[str, Any] = {
        "bucket": "bucket",
        "key": "k",
        "topic": "t",
        "records": 0,
        "bad": 0,
        "bytes": 1,
        "at_ms": 1,
    }
    quarantined = QuarantinedObject(reason=None, position="byte 1", error=_TOLD, **ended)
    shown = shown_connector(
        _life(
            Unavailable(_TOLD),
            buckets=("bucket", "others"),
            mode_reason=_TOLD,
            problems={"objects bucket": _TOLD},
            quarantined=(quarantined,),
        )
    )

    assert (shown["buckets"], shown["mode_reason"]) == (("bucket", "others"), _TOLD)
    assert shown["problems"] == {"objects bucket": _SHOWN}
    assert (shown["quarantined"][0]["bucket"], shown["quarantined"][0]["error"]) == ("bucket", _TOLD)


@pytest.mark.parametrize(
    "error", [NotLeading(_TOLD, passes=True), InvalidOffsets(_TOLD), AccessDenied(_TOLD)]
)
def test_what_one_that_runs_refuses_with_names_references(error: HeadraceError) -> None:
    """Whatever is asked of it; what decides about an answer stays."""
    life = _life(error)
    port, offsets = HostedPort(life, None), HostedOffsets(life)
    for ask in (
        port.require_leading,
        lambda: port.steer(TargetState.PAUSED),
        lambda: port.restart(()),
        lambda: port.restart_task(0),
        port.topics,
        port.reset_topics,
        offsets.items,
        offsets.reset,
    ):
        error.args = (_TOLD,)
        with pytest.raises(type(error)) as raised:
            ask()
        assert str(raised.value) == _SHOWN
        assert getattr(raised.value, "passes", True)


def test_the_bucket_of_offsets_is_named_as_it_was_written() -> None:
    """Where they are of another one."""
    partition = {"bucket": "another", "key": "k", "etag": "e"}
    with pytest.raises(InvalidOffsets, match=r"of this connector is '\$\{env:BUCKET\}'$"):
        HostedOffsets(_life(Unavailable(_TOLD))).alter([{"partition": partition, "offset": None}])


def test_why_another_process_leads_names_references() -> None:
    """In the `trace`, and in what is answered to who wants to steer it."""
    life = _life(Unavailable(_TOLD), role="standby", problems={"lead": _TOLD})
    port = HostedPort(life, None)

    assert port.condition().problems == (_SHOWN,)
    with pytest.raises(NotLeading) as raised:
        port.steer(TargetState.PAUSED)
    assert "bucket/" not in str(raised.value)
