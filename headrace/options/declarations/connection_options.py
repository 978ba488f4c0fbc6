"""What this ingester is, and what it talks to: identity, Kafka, Spark, its own endpoints."""

from dataclasses import replace
from typing import Final

from headrace.options.choices import ExactlyOnce, Partitioner, TracesExporter
from headrace.options.declarations.option import Family, Group, option, optional, required
from headrace.options.value_types import LISTEN, SERVERS, TEXT, TOPIC, URL, choice, integer, matching
from headrace.options.vendor import CONNECTOR

# Names and ids end up in transactional ids, group and topic names, and as a folder.
_WORD: Final = r"(?!\.{1,2}$)[A-Za-z0-9._-]"
_MASTER: Final = (
    r"local(\[(\*|[1-9][0-9]*)(,[0-9]+)?\])?|local-cluster\[[0-9, ]+\]"
    r"|spark://[^\s,/]+:[0-9]+(,[^\s,/]+:[0-9]+)*|k8s://\S+|yarn"
)
_ONCE: Final = choice(ExactlyOnce)
# Kafka Connect's word for what is had here in any case.
_EXACTLY_ONCE: Final = replace(
    _ONCE,
    parse=lambda text: _ONCE.parse("required" if text.strip().lower() == "requested" else text),
)

NAME = required(
    "name",
    matching(rf"{_WORD}{{1,200}}", "1 to 200 of a-z A-Z 0-9 . _ -"),
    Group.IDENTITY,
    "Identity of this ingester: prefix of its transactional ids, its consumer group and its ledger. Another "
    "name is another ingester, which reads everything again.",
)
CONNECTOR_CLASS = optional(
    "connector.class",
    CONNECTOR,
    Group.IDENTITY,
    "`HeadraceSource` brings objects to Kafka, `HeadraceSink` archives topics into objects. A configuration "
    "of the Aiven source connector runs unchanged.",
    default_says="a sink with `topics` or `topics.regex`, else a source",
)
INSTANCE_ID = optional(
    "instance.id",
    matching(rf"{_WORD}{{1,200}}", "1 to 200 of a-z A-Z 0-9 . _ -"),
    Group.IDENTITY,
    "By what the group knows this process again after a crash, so that it leads at once and does not wait "
    "for its own session to end. Not set, the lock of `state.dir` does the same where that outlives the "
    "process. Must differ by process and stay over restarts.",
    importance="LOW",
)
LEAD_SESSION_TIMEOUT = option(
    "lead.session.timeout.ms",
    integer(6_000, 60_000, unit="milliseconds"),
    "10000",
    Group.IDENTITY,
    "Several processes of one name: one leads, the others wait, and take over when the leader has been "
    "silent for this long. A broker refuses less than its `group.min.session.timeout.ms` (6,000 unless set).",
    importance="LOW",
)
TASKS_MAX = optional(
    "tasks.max",
    integer(1, 1_000),
    Group.IDENTITY,
    "Number of slots that work in parallel, each with a transactional id of its own.",
    default_says="the Spark default parallelism",
    importance="HIGH",
)

BOOTSTRAP_SERVERS = required(
    "bootstrap.servers",
    SERVERS,
    Group.KAFKA,
    "The Kafka cluster. May instead come from `--worker-config FILE` (a Connect worker's, `.properties` or "
    "JSON) or `--set bootstrap.servers=..`.",
)
EXACTLY_ONCE = option(
    "exactly.once.support",
    _EXACTLY_ONCE,
    "required",
    Group.KAFKA,
    "`required`: transactions, nothing lost and nothing twice for a read-committed consumer. `disabled`: an "
    "idempotent producer, at least once (in a sink: one PUT an object, offsets after it). Kafka Connect's "
    "`requested` is `required`.",
)
OFFSETS_TOPIC = optional(
    "offsets.storage.topic",
    TOPIC,
    Group.KAFKA,
    "The ledger: the compacted topic of what has become of each object. Created with one partition if "
    "missing.",
    default_says="`<name>-offsets`",
)
PARTITIONER = option(
    "producer.partitioner",
    choice(Partitioner),
    "murmur2_random",
    Group.KAFKA,
    "How a record's partition is found when the template gives none. The default does as Java clients do.",
    importance="LOW",
)
TOPIC_PARTITIONS = optional(
    "topic.creation.default.partitions",
    integer(1, 100_000, also=-1),
    Group.KAFKA,
    "With `topic.creation.default.replication.factor`: missing topics are created so. Without both, a "
    "missing topic is an error that names it. -1 is the broker's default.",
)
TOPIC_REPLICATION = optional(
    "topic.creation.default.replication.factor",
    integer(1, 32_767, also=-1),
    Group.KAFKA,
    "With `topic.creation.default.partitions`: replication of the topics that are created. -1 is the "
    "broker's default.",
)

SPARK_MASTER = option(
    "spark.master",
    matching(_MASTER, "local[*], local[N], spark://HOST:PORT, k8s://.., or yarn"),
    "local[*]",
    Group.SPARK,
    "Where the work runs. `local[*]` is this machine, all cores.",
    importance="HIGH",
)
SPARK_REMOTE = optional(
    "spark.remote",
    matching(
        r"sc://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?(?:;[^;=\s]+=[^;\s]*)*",
        "a Spark Connect URL such as sc://host:15002 or sc://host:15002/;use_ssl=true;token=..",
    ),
    Group.SPARK,
    "A Spark Connect server instead of `spark.master`. Its executors have to reach this process, as those "
    "of a cluster do, and it has to run with `spark.task.maxFailures=1`. A token in the URL is not shown.",
)

HTTP_LISTEN = option(
    "http.listen",
    LISTEN,
    "127.0.0.1:8085",
    Group.SERVICE,
    "Where `/metrics`, `/health/live`, `/health/ready` and `/status` answer; read-only. Empty is off. A "
    "taken port is a configuration error.",
)
REST_LISTEN = optional(
    "rest.listen",
    LISTEN,
    Group.SERVICE,
    "Where Kafka Connect's REST interface for this connector answers: status, offsets, pause, resume, stop. "
    "Beyond loopback it needs `rest.auth.file`. A taken port is a configuration error.",
    default_says="off",
)
REST_AUTH_FILE = optional(
    "rest.auth.file",
    TEXT,
    Group.SERVICE,
    "File with a line `user:password` for each user of the REST interface, which then asks for them (HTTP's "
    "basic authentication). Not everybody on the machine may be able to read it.",
)
TRACES_EXPORTER = option(
    "traces.exporter",
    choice(TracesExporter),
    "none",
    Group.SERVICE,
    "`otlp`: one OpenTelemetry trace for each object's way, sent to a collector by OTLP over HTTP "
    "(`pip install 'headrace[traces]'`). The standard `OTEL_*` variables are in force; a collector that is "
    "away slows nothing down.",
    importance="LOW",
)
TRACES_ENDPOINT = optional(
    "traces.endpoint",
    URL,
    Group.SERVICE,
    "The collector's whole URL, such as `http://collector:4318/v1/traces`.",
    default_says="as `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT` says, else port "
    "4318 of this machine",
    importance="LOW",
)
STATE_DIR = optional(
    "state.dir",
    TEXT,
    Group.SERVICE,
    "Folder for the cache of the ledger. Losing it costs a re-read of the topic, nothing else.",
    default_says="`headrace` in `$XDG_STATE_HOME`, or in `~/.local/state`",
)
LEDGER_RETENTION = option(
    "ledger.retention.ms",
    integer(0, 2**53, unit="milliseconds"),
    "2592000000",
    Group.SERVICE,
    "How long the entry of an object that listings no longer show is kept at least. Longer than a message "
    "can come back from a queue (14 days) and its dead letter queue.",
    importance="LOW",
)

FAMILIES: Final = (
    Family(
        prefix="security.protocol",
        group=Group.KAFKA,
        doc="`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`, for every Kafka client.",
    ),
    Family(
        prefix="sasl.",
        group=Group.KAFKA,
        doc="Log-in of every Kafka client, in Java's spelling (`sasl.jaas.config`) or librdkafka's.",
    ),
    Family(
        prefix="ssl.",
        group=Group.KAFKA,
        doc="TLS of every Kafka client, in Java's spelling (PEM and PKCS12 stores) or librdkafka's.",
    ),
    Family(
        prefix="producer.override.",
        group=Group.KAFKA,
        doc="Any property of the producers; wins over the three above.",
    ),
    Family(
        prefix="consumer.override.",
        group=Group.KAFKA,
        doc="Any property of the consumers; wins over the three above.",
    ),
    Family(
        prefix="admin.override.",
        group=Group.KAFKA,
        doc="Any property of the admin clients; wins over the three above.",
    ),
    Family(
        prefix="spark.",
        group=Group.SPARK,
        doc="Any property of Spark, handed on as it is. The Spark UI is off and the local driver on loopback "
        "unless set.",
    ),
)
