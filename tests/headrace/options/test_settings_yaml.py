"""Configurations in YAML: scalars stay as they are written, and what is none gets a sentence."""

import pytest

from headrace.options import SettingsError
from headrace.vendors.load import load
from tests.headrace.options.loading import no_file

SINK = """\
name: archive
bootstrap.servers: 127.0.0.1:9092
aws.s3.bucket.name: bucket
topics: [orders, payments]   # a list is its texts with commas
rotate.records: 7
rotate.age.ms: 0
output.envelope: true
"""


def test_the_flat_shape() -> None:
    """Numbers, booleans and lists as people write them."""
    sink = load(SINK, kind="yaml", environment={}, read_file=no_file).sink

    assert sink is not None
    assert sink.topics.names == ("orders", "payments")
    assert (sink.rotation.records, sink.rotation.age_ms, sink.output.envelope) == (7, 0, True)


def test_the_shape_of_connect() -> None:
    """Name and config, as its REST interface has them."""
    inner = "".join(f"  {line}\n" for line in SINK.splitlines()[1:])
    settings = load(f"name: archive\nconfig:\n{inner}", kind="yaml", environment={}, read_file=no_file)

    assert settings.name == "archive"


STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata:
  name: archive
  labels: {strimzi.io/cluster: connect}
spec:
  class: io.confluent.connect.s3.S3SinkConnector
  tasksMax: 2
  autoRestart: {enabled: true}
  state: stopped
  config:
%s
status:
  conditions: [{type: Ready}]
"""
CONFLUENT = """\
apiVersion: platform.confluent.io/v1beta1
kind: Connector
metadata: {name: archive-cr, namespace: confluent}
spec:
  name: archive
  class: io.confluent.connect.s3.S3SinkConnector
  taskMax: 2
  connectClusterRef: {name: connect}
  configs:
%s
"""
_KAFKA_CONNECTOR = "apiVersion: a\nkind: KafkaConnector\nmetadata: {name: a}\n"


@pytest.mark.parametrize("resource", [STRIMZI, CONFLUENT])
def test_a_connector_as_operators_of_kubernetes_keep_it(resource: str) -> None:
    """Its name, class and number of tasks are outside of its options, and may be said there again."""
    options = {
        "name": "archive",
        "topics": "orders",
        "s3.bucket.name": "bucket",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "flush.size": "3",
        "bootstrap.servers": "127.0.0.1:9092",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    text = resource % "\n".join(f"    {name}: {value}" for name, value in options.items())

    settings = load(text, kind="yaml", environment={}, read_file=no_file)

    assert (settings.name, settings.identity.tasks_max) == ("archive", 2)
    assert settings.sink is not None
    assert settings.sink.topics.names == ("orders",)


def test_an_empty_document_after_it() -> None:
    """As Kubernetes' tools pass over it; a line of --- is the end of many files."""
    settings = load(f"---\n{SINK}---\n# none\n", kind="yaml", environment={}, read_file=no_file)

    assert settings.name == "archive"


def test_tags_of_yaml_itself() -> None:
    """They change nothing of a text."""
    text = SINK.replace("records: 7", "records: !!int '7'").replace(": archive", ": !!str archive")
    sink = load(text.replace("127", "! 127"), kind="yaml", environment={}, read_file=no_file).sink

    assert sink is not None
    assert sink.rotation.records == 7


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "the text is empty; what is read is", id="empty"),
        pytest.param("a: [", "the YAML is broken at line 1, column 5: ", id="broken"),
        pytest.param("- a\n", "the YAML is not a mapping; expected", id="list"),
        pytest.param("? [a]\n: b\n", "line 1 of the YAML has no name; expected", id="name"),
        pytest.param(
            "a: b\n---\na: c\n", "the YAML has a second document at line 3; keep one connector in", id="two"
        ),
        pytest.param("name: ~\n", "name: is null; expected a text, a number or a boolean", id="null"),
        pytest.param("topics: [[a]]\n", "topics: is a list; expected a text", id="nested list"),
        pytest.param("name: {a: b}\n", "name: is an object; expected a text", id="nested"),
        pytest.param("name: a\nname: b\n", "name: given twice; keep one of them", id="twice"),
        pytest.param("rotate.records: 1e3\n", "rotate.records = '1e3': expected a whole", id="as written"),
        pytest.param("a: !!python/object:os.system {}\n", "a: is an object", id="hostile tag"),
        pytest.param("a: b\nc: !Ref d\n", "line 2 of the YAML has the tag !Ref, which nothing", id="tag"),
        pytest.param("a: !!binary aGk=\n", "line 1 of the YAML has the tag !!binary, which", id="binary"),
        pytest.param("topics: [a, !ENV B]\n", "line 1 of the YAML has the tag !ENV, which", id="item's tag"),
        pytest.param("a: !Sub [b]\n", "line 1 of the YAML has the tag !Sub, which nothing", id="list's tag"),
        pytest.param("config: !x {a: b}\n", "line 1 of the YAML has a tag (!), which", id="mapping's tag"),
        pytest.param("--- !x\na: b\n", "line 1 of the YAML has a tag (!), which nothing", id="whole tag"),
        pytest.param("!x a: b\n", "line 1 of the YAML has a tag (!), which nothing", id="name's tag"),
        pytest.param(
            "base: &b\n  topic: t\n<<: *b\n", "line 3 of the YAML has a merge key (<<), which", id="merge key"
        ),
        pytest.param("a: &x {b: *x}\n", "the YAML is", id="circle"),
        pytest.param(
            "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaConnect\nspec: {config: {group.id: t}}\n",
            "this is a resource of Kubernetes (KafkaConnect), and no connector's: those are KafkaConnector",
            id="workers of Strimzi's",
        ),
        pytest.param(
            "apiVersion: a\nkind: KafkaConnector\nmetadata: {name: a}\nspec: {config: {name: b}}\n",
            "name: is another one outside of spec.config; keep that one alone",
            id="another name than the resource's",
        ),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- {kind: KafkaConnector}\n",
            "this is a list of resources of Kubernetes, and one is read: save each connector in a file",
            id="a list of resources",
        ),
        pytest.param(
            f"{_KAFKA_CONNECTOR}spec: {{configs: {{topics: a}}}}\n",
            "this is a KafkaConnector without spec.config, which is where its options are",
            id="a resource without options",
        ),
        pytest.param(
            f"{_KAFKA_CONNECTOR}spec: {{taskMax: 3, config: {{topics: a}}}}\n",
            "spec.taskMax: is of another kind of resource; a KafkaConnector has spec.tasksMax",
            id="a member of the other operator's",
        ),
        pytest.param(
            f"{_KAFKA_CONNECTOR}spec: {{name: b, config: {{topics: a}}}}\n",
            "spec.name: is of another kind of resource; a KafkaConnector has metadata.name",
            id="the other operator's name",
        ),
        pytest.param(
            f"{_KAFKA_CONNECTOR}spec:\n  class: a\n  class: b\n  config: {{topics: a}}\n",
            "spec.class: given twice; keep one of them",
            id="twice in a resource",
        ),
        pytest.param(
            "apiVersion: a\nkind: KafkaConnector\nspec: {config: {topics: a}}\n",
            "name: is missing",
            id="a resource without a name",
        ),
    ],
)
def test_what_cannot_be_read(text: str, problem: str) -> None:
    """One sentence each."""
    with pytest.raises(SettingsError) as caught:
        load(text, kind="yaml", environment={}, read_file=no_file)

    assert any(str(each).startswith(problem) for each in caught.value.problems), caught.value


@pytest.mark.parametrize("text", ["!hunter2", "*hunter2", "!hunt!er2", "!hunter2 x", "[!hunter2 ]"])
def test_a_secret_without_quotes_is_not_told(text: str) -> None:
    """Its first sign makes another thing of it in YAML, of which the sentence had the name."""
    with pytest.raises(SettingsError) as caught:
        load(f"name: a\nsasl.password: {text}\n", kind="yaml", environment={}, read_file=no_file)

    assert "er2" not in str(caught.value)
    assert "put a text that begins with it between quotes" in str(caught.value)
    assert "line 2" in str(caught.value)
