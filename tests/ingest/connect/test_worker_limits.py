"""What a worker's file forbids its connectors, as Kafka Connect's does: over REST, in files and for a run."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.kafka.control_records import ConnectorRecord
from headrace.options import Settings, SettingsError
from headrace.vendors.load import load
from ingest.connect.connector_loading import Loading
from ingest.connect.worker_settings import WorkerSettings, read_worker
from tests.ingest.connect.test_worker_changes import SINK, SOURCE, WORKER, Worker

FILE = "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider"
FOLDER = "config.providers.d.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider"
VARIABLES = "config.providers.e.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider"
POLICY = "connector.client.config.override.policy"
ALLOWLIST = "connector.client.config.override.allowlist"
ENVIRONMENT = {"DB_PASSWORD": "topsecret9", "PUBLIC_PREFIX": "public/"}


def settings_of(*lines: str) -> WorkerSettings:
    """The settings of a worker's file with these lines."""
    text = "\n".join((WORKER, *lines))
    return read_worker(text, is_json=False, environment=ENVIRONMENT, read_file=_read_file)


def _read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def loaded(config: Mapping[str, str], *lines: str) -> Settings:
    """A connector's settings next to a worker's file with these lines."""

    def load_text(config: Mapping[str, str], worker: str) -> Settings:
        return load(
            json.dumps(dict(config)),
            kind="json",
            environment=ENVIRONMENT,
            read_file=_read_file,
            worker_config=worker,
        )

    record = ConnectorRecord(name="x", config={**config, "name": "x"}, at_ms=0, created_ms=1)
    return Loading(settings_of(*lines), load_text)(record)


def prefix_of(reference: str, *lines: str) -> str:
    """What a connector's prefix comes to that refers to something."""
    return loaded({**SINK, "aws.s3.prefix": reference}, *lines).s3.prefix


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Secrets: one in the folder that connectors may read, and one next to it."""
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed.not").mkdir()
    for place in (tmp_path / "allowed", tmp_path / "allowed.not", tmp_path):
        (place / "s.properties").write_text(f"p=in-{place.name}\n")
        (place / "whole").write_text("whole")
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "allowed.not")
    return tmp_path


def limited(folder: Path) -> tuple[str, ...]:
    """The lines of a worker's file that keep connectors to one folder and some variables."""
    allowed = f"{folder}/allowed"
    return (
        "config.providers=file,d,e",
        *(FILE, FOLDER, VARIABLES),
        f"config.providers.file.param.allowed.paths={allowed}",
        f"config.providers.d.param.allowed.paths=/nowhere,{allowed}/",
        "config.providers.e.param.allowlist.pattern=PUBLIC_.*",
    )


def test_what_is_allowed_is_read(folder: Path) -> None:
    """By each provider, and a path with dots by what it comes to."""
    lines = limited(folder)
    assert prefix_of(f"${{file:{folder}/allowed/s.properties:p}}", *lines) == "in-allowed"
    assert prefix_of(f"${{file:{folder}/allowed/link/../s.properties:p}}", *lines) == "in-allowed"
    assert prefix_of(f"${{file:/{folder}/allowed/s.properties:p}}", *lines) == "in-allowed"
    assert prefix_of(f"${{dir:{folder}/allowed:whole}}", *lines) == "whole"
    assert prefix_of("${env:PUBLIC_PREFIX}", *lines) == "public/"


@pytest.mark.parametrize(
    "reference",
    [
        "${file:FOLDER/s.properties:p}",
        "${file:FOLDER/allowed.not/s.properties:p}",
        "${file:FOLDER/allowed/../s.properties:p}",
        "${file:/FOLDER/s.properties:p}",
        "${file:allowed/s.properties:p}",
        "${file:FOLDER/nowhere:p}",
        "${dir:FOLDER:whole}",
        "${directory:FOLDER:whole}",
        "${dir:FOLDER/allowed:../whole}",
        "${dir:FOLDER/allowed/..:whole}",
        "${env:DB_PASSWORD}",
        "${env:NOT_PUBLIC_PREFIX}",
        "${env:PUBLIC_PREFIX}${env:DB_PASSWORD}",
    ],
)
def test_what_is_not_allowed_is_not_read_whether_it_is_there_or_not(folder: Path, reference: str) -> None:
    """A problem of the option, without a word of what is there; `validate` has it too."""
    lines, config = limited(folder), {**SINK, "aws.s3.prefix": reference.replace("FOLDER", str(folder))}
    with pytest.raises(SettingsError, match="does not let connectors read") as raised:
        loaded(config, *lines)
    assert "in-" not in str(raised.value)
    worker = Worker("\n".join((WORKER, *lines)))
    assert worker.ask("PUT", "/connectors/x/config", config)[0] == 400
    path = "/connector-plugins/HeadraceSink/config/validate"
    judged = worker.ask("PUT", path, {**config, "name": "x"})[1]["configs"]
    (of_prefix,) = (one["value"]["errors"] for one in judged if one["value"]["name"] == "aws.s3.prefix")
    assert "does not let connectors read" in of_prefix[0]


def test_next_to_a_limit_only_what_is_listed_is_read(folder: Path) -> None:
    """`dir` and `env` would be the way around what `file` is kept to; without a limit all are read."""
    limit = f"config.providers.file.param.allowed.paths={folder}/allowed"
    for reference in (f"${{dir:{folder}:whole}}", "${env:DB_PASSWORD}"):
        with pytest.raises(
            SettingsError, match=r"has no provider of '(dir|env)': add one to config.providers"
        ):
            prefix_of(reference, "config.providers=file", FILE, limit)
        assert prefix_of(reference, "config.providers=file", FILE)
    assert prefix_of("${env:DB_PASSWORD}", "config.providers=file,env", FILE, limit) == "topsecret9"


@pytest.mark.parametrize("provider", ["dir", "directory"])
@pytest.mark.parametrize("reference", ["dir", "directory"])
def test_a_provider_without_a_class_is_of_its_names_kind(folder: Path, provider: str, reference: str) -> None:
    """By either of the names that folders' provider has, its limit holds for both forms of a reference."""
    limit = f"config.providers.{provider}.param.allowed.paths={folder}/allowed"
    lines = (f"config.providers={provider}", limit)
    with pytest.raises(SettingsError, match=r"outside of allowed\.paths"):
        prefix_of(f"${{{reference}:{folder}:whole}}", *lines)
    assert prefix_of(f"${{{reference}:{folder}/allowed:whole}}", *lines) == "whole"


def test_a_limit_counts_by_any_name_of_its_provider(folder: Path) -> None:
    """In Connect a connector can choose among them, so here one without a limit lifts that of the others."""
    named = tuple(line.replace(".file.", ".my.secrets.") for line in _limit(folder))
    other = FILE.replace(".file.", ".all.")
    reference = f"${{file:{folder}/s.properties:p}}"
    with pytest.raises(SettingsError, match=r"outside of allowed\.paths"):
        prefix_of(reference, "config.providers=my.secrets", *named)
    lifted = prefix_of(reference, "config.providers=my.secrets,all", *named, other)
    assert lifted == f"in-{folder.name}"


def _limit(folder: Path) -> tuple[str, str]:
    return FILE, f"config.providers.file.param.allowed.paths={folder}/allowed"


@pytest.mark.parametrize(
    ("lines", "reference", "said"),
    [
        (("config.providers=file", FILE.replace(".file.", ".old.")), "file:FOLDER/s.properties:p", "outside"),
        (("config.providers=file", FOLDER), "dir:FOLDER:whole", "has no provider"),
        (("config.providers=file", VARIABLES), "env:DB_PASSWORD", "has no provider"),
        (("config.providers.old.class=x.FileConfigProvider",), "file:FOLDER/s.properties:p", "outside"),
        ((), "file:FOLDER/s.properties:p", "outside"),
    ],
)
def test_a_provider_that_is_not_listed_neither_opens_nor_lifts(
    folder: Path, lines: tuple[str, ...], reference: str, said: str
) -> None:
    """A line was left of one that is no more; what it limits alone it limits all the same."""
    with pytest.raises(SettingsError, match=said):
        prefix_of(f"${{{reference.replace('FOLDER', str(folder))}}}", *_limit(folder), *lines)


def test_a_limit_that_is_not_listed_is_none_of_the_listed_one(folder: Path) -> None:
    """It adds no folder to those of the provider that there is."""
    left = f"config.providers.old.param.allowed.paths={folder}"
    reference = f"${{file:{folder}/s.properties:p}}"
    with pytest.raises(SettingsError, match=r"outside of allowed\.paths"):
        prefix_of(reference, "config.providers=file", *_limit(folder), FILE.replace(".file.", ".old."), left)


@pytest.mark.parametrize(
    "paths", ["FOLDER/allowed,", "FOLDER/allowed, ,", "/FOLDER/allowed", "//FOLDER//allowed/"]
)
def test_paths_are_read_as_java_reads_them(folder: Path, paths: str) -> None:
    """A comma at the end and a slash more are nothing."""
    limit = f"config.providers.file.param.allowed.paths={paths.replace('FOLDER', str(folder))}"
    lines = ("config.providers=file", FILE, limit)
    assert prefix_of(f"${{file:{folder}/allowed/s.properties:p}}", *lines) == "in-allowed"
    with pytest.raises(SettingsError, match="outside"):
        prefix_of(f"${{file:{folder}/s.properties:p}}", *lines)


_OVERRIDES = {
    "consumer.override.fetch.min.bytes": "1",
    "producer.override.security.protocol": "PLAINTEXT",
    "admin.override.sasl.jaas.config": "x",
    "security.protocol": "PLAINTEXT",
    "bootstrap.servers": "127.0.0.1:9092",
}
_PRINCIPAL = {"consumer.override.fetch.min.bytes", "bootstrap.servers"}


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ((f"{POLICY}=None",), set(_OVERRIDES)),
        ((f"{POLICY}=Principal",), _PRINCIPAL),
        ((f"{POLICY}=org.apache.kafka.PrincipalConnectorClientConfigOverridePolicy",), _PRINCIPAL),
        ((f"{POLICY}=Allowlist",), set(_OVERRIDES)),
        (
            (f"{POLICY}=Allowlist", f"{ALLOWLIST}=fetch.min.bytes, security.protocol"),
            {"admin.override.sasl.jaas.config", "bootstrap.servers"},
        ),
        ((f"{POLICY}=All",), set()),
        ((), set()),
    ],
)  # fmt: skip
def test_options_of_clients_are_set_as_the_policy_has_it(lines: tuple[str, ...], refused: set[str]) -> None:
    """Those that Headrace takes without a prefix, too: they decide the same."""
    found = set()
    for option, text in _OVERRIDES.items():
        try:
            loaded({**SINK, option: text}, *lines)
        except SettingsError as error:
            found |= {one.option for one in error.problems if "does not let connectors set" in one.message}
    assert found == refused


def test_brokers_that_may_not_be_set_are_not_to_be_removed_without_a_thought() -> None:
    """The ledger is there: a connector without them would do all of its work again on others."""
    with pytest.raises(SettingsError, match="on another one this connector's ledger is there"):
        loaded({**SOURCE, "bootstrap.servers": "kafka-9:9092"}, f"{POLICY}=None")
    with pytest.raises(SettingsError, match="remove it") as raised:
        loaded({**SOURCE, "producer.override.linger.ms": "1"}, f"{POLICY}=None")
    assert "cluster" not in str(raised.value)


def test_a_policy_is_not_the_workers_own() -> None:
    """It sets what its file has, of its own clients and for its connectors."""
    lines = (f"{POLICY}=None", "producer.max.request.size=3000000", "security.protocol=PLAINTEXT")
    found = settings_of(*lines)
    assert found.frame.kafka.client("producer")["message.max.bytes"] == "3000000"
    assert found.warnings == ()
    assert loaded(SINK, *lines).kafka.client("consumer")["security.protocol"] == "PLAINTEXT"


def test_topics_are_not_made_where_the_workers_file_forbids_it() -> None:
    """As in Connect the options mean nothing then, with one warning; they are shown as they were given."""
    creation = {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"}
    config = {**SOURCE, **creation}
    forbidden = loaded(config, "topic.creation.enable=false")
    assert forbidden.kafka.topic_creation is None
    (warning,) = (one for one in forbidden.warnings if "topic.creation" in one)
    assert all(name in warning for name in creation)
    assert loaded(config, "topic.creation.enable=true").kafka.topic_creation is not None
    assert loaded(config).kafka.topic_creation is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{POLICY}=com.example.Ours", "expected All, None, Principal or Allowlist"),
        ("topic.creation.enable=no", "enable = 'no': of the worker's file: expected true or false"),
        ("config.providers.file.param.allowed.paths=secrets", "expected absolute paths"),
        ("config.providers.file.param.allowed.paths=/a,,/b", "expected absolute paths"),
        ("config.providers.env.param.allowlist.pattern=(", "expected a regular expression"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_at_the_start(line: str, said: str) -> None:
    """Rather than passed over, for connectors and the worker alike."""
    with pytest.raises(SettingsError) as raised:
        settings_of(line)
    assert said in str(raised.value)


def test_the_same_file_limits_a_connector_that_runs_alone(folder: Path) -> None:
    """`headrace run CONFIG --worker-config FILE`."""
    config = {
        **SINK,
        "name": "x",
        "aws.s3.prefix": f"${{file:{folder}/s.properties:p}}",
        "consumer.override.a": "1",
    }
    with pytest.raises(SettingsError) as raised:
        load(
            json.dumps(config),
            kind="json",
            environment={},
            read_file=_read_file,
            worker_config="\n".join((WORKER, *limited(folder), f"{POLICY}=None")),
        )
    for said in ("does not let connectors read", "does not let connectors set"):
        assert said in str(raised.value)
