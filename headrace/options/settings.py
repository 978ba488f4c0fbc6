"""The settings: one frozen object, values already parsed, grouped as the rooms use them.

All of it is small and picklable, since tasks get it too. Secrets are wrapped and show as `***`; `client`
methods are the only places that reveal them, for the constructor of the client they name.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from headrace.model.objects import PostAction
from headrace.names import KeyTemplate
from headrace.names.archive_names import LayoutName
from headrace.options.aws_forms import addressing_style, objects_arn, policy_arn
from headrace.options.choices import (
    Compression,
    CredentialsProvider,
    Envelope,
    EnvelopeField,
    FileNameMatch,
    HeaderSource,
    InputFormat,
    JsonFormat,
    KeySource,
    NamedTexts,
    NameOptions,
    Ordering,
    PollListing,
    RestoreOptions,
    RestorePartition,
    RestoreSidecars,
    RestoreTombstones,
    TimestampSource,
    Tolerance,
    ValueFormat,
    ValueSource,
)
from headrace.options.row_settings import PLAIN_CSV, PLAIN_LINES, CsvSettings, PackingSettings, TextSettings
from headrace.options.schema_settings import GlueWriting, RegistrySettings
from headrace.options.secret import Property, Secret, revealed
from headrace.options.sink_settings import SinkRoute, SinkSettings
from headrace.options.transforms import NO_TRANSFORMS, TransformChain
from headrace.options.value_types import HostPort
from headrace.options.vendor_translation import TranslatedLine

Role = Literal["producer", "consumer", "admin"]


@dataclass(frozen=True, kw_only=True, slots=True)
class IdentitySettings:
    """Who this process is among those of one name. `tasks_max` None: the Spark default parallelism."""

    name: str
    instance_id: str | None
    lead_session_timeout_ms: int
    tasks_max: int | None

    @property
    def group_id(self) -> str:
        """The consumer group whose one partition is the leadership."""
        return f"headrace-{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicCreation:
    """How missing topics are created; -1 leaves a number to the broker."""

    partitions: int
    replication_factor: int


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaSettings:
    """The cluster, the properties of each kind of client, and how records are written.

    `message_max_bytes` is in the producer's properties too.
    """

    bootstrap_servers: str
    producer: tuple[Property, ...]
    consumer: tuple[Property, ...]
    admin: tuple[Property, ...]
    exactly_once: bool
    ledger_topic: str
    transaction_interval_ms: int
    transaction_records: int
    message_max_bytes: int
    topic_creation: TopicCreation | None

    def client(self, role: Role) -> dict[str, str]:
        """Return librdkafka's properties for one client, secrets revealed.

        They hold what a user may decide; what the protocol decides (`transactional.id`, `group.id`,
        `enable.auto.commit` ..) is set by its own room over them, and is never in here.
        """
        match role:
            case "producer":
                return revealed(self.producer)
            case "consumer":
                return revealed(self.consumer)
            case "admin":
                return revealed(self.admin)


@dataclass(frozen=True, kw_only=True, slots=True)
class StaticCredentials:
    """Keys written in the configuration; the only credentials that travel to executors."""

    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderCredentials:
    """One named source of credentials, resolved where it is used; `profile` None: that of AWS_PROFILE."""

    provider: CredentialsProvider
    profile: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultCredentials:
    """The default chain of the AWS tools, resolved where it is used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleCredentials:
    """A role that `source` may assume; `endpoint` None is the region's own STS."""

    arn: str
    session_name: str
    external_id: str | None
    duration_seconds: int
    endpoint: str | None
    source: StaticCredentials | ProviderCredentials | DefaultCredentials


Credentials = RoleCredentials | StaticCredentials | ProviderCredentials | DefaultCredentials


@dataclass(frozen=True, kw_only=True, slots=True)
class BackoffSettings:
    """Repeats of one S3 call: `max_retries` 3 are 4 calls."""

    delay_ms: int
    max_delay_ms: int
    max_retries: int


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Settings:
    """The bucket and how to reach it. `path_style`: it is in the path of addresses.

    `proxy` is a URL with what it asks for in it; None leaves proxies to the environment.
    """

    bucket: str
    prefix: str
    region: str
    endpoint: str | None
    credentials: Credentials
    backoff: BackoffSettings
    path_style: bool
    requester_pays: bool
    ca_bundle: str | None
    proxy: Secret | None = None

    @property
    def addressing_style(self) -> Literal["path", "virtual", "auto"]:
        """How the bucket is addressed, in botocore's words."""
        return addressing_style(self.endpoint, path_style=self.path_style)

    @property
    def arn(self) -> str:
        """The bucket's ARN in a policy, in the partition of its region."""
        return policy_arn(self.bucket, self.region)

    @property
    def objects_arn(self) -> str:
        """That of the objects under the prefix."""
        return objects_arn(self.arn, f"{self.prefix}*")


@dataclass(frozen=True, kw_only=True, slots=True)
class SqsSettings:
    """The queue of notifications. `visibility_timeout_seconds` None is the queue's own."""

    queue_url: str
    endpoint: str | None
    region: str
    wait_time_seconds: int
    visibility_timeout_seconds: int | None
    receivers: int
    max_held: int
    fallback_after_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DiscoverySettings:
    """How listings go, and which keys they leave out. `reconcile_interval_ms` 0: only at each start."""

    poll_interval_ms: int
    poll_listing: PollListing
    reconcile_interval_ms: int
    include_existing: bool
    native_start_key: str | None
    initial_inventory: tuple[str, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    min_age_ms: int
    max_pending_objects: int
    max_bytes_per_second: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RoutingSettings:
    """Where records go. `topic` wins over the template's; one of both is there, unless keys are a layout's.

    `file_name_template` is None only next to a layout.
    """

    file_name_template: str | None
    file_name_match: FileNameMatch
    topic: str | None
    ordering: Ordering
    partitioner: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreSettings:
    """Whose archive the objects are, and what becomes of its records.

    `layout` None: found out for each key. `is_format_given`: `input.format` decides how rows are cut out, and
    not the object. `is_header_given`: it was said whether csv begins with the names of its columns.
    `separator` is after each value of Confluent's bytes.
    """

    layout: LayoutName | None
    template: str | None
    names: NameOptions
    rows: RestoreOptions
    topic_map: tuple[tuple[str, str], ...]
    partition: RestorePartition
    is_format_given: bool
    is_header_given: bool
    separator: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatSettings:
    """What objects hold, and what a record is made of. `restore` is None unless they are an archive.

    `packing` is None where objects are not opened as a zip or tar.
    `json_path` names the objects around an array of JSON, from the outermost; empty: there are none.
    """

    input_format: InputFormat
    compression: Compression
    chunk_bytes: int
    record_max_bytes: int
    decode_unit_max_bytes: int
    key_source: KeySource
    key_format: ValueFormat
    value_source: ValueSource
    value_format: ValueFormat
    json_format: JsonFormat
    headers: HeaderSource
    timestamp: TimestampSource
    envelope: Envelope
    envelope_base64: tuple[EnvelopeField, ...]
    registry: RegistrySettings | None
    glue: GlueWriting | None = None
    """Values are in Glue's framing."""
    restore: RestoreSettings | None = None
    csv: CsvSettings = PLAIN_CSV
    text: TextSettings = PLAIN_LINES
    json_path: tuple[str, ...] | None = None
    packing: PackingSettings | None = None
    fields: NamedTexts = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSettings:
    """Bounds of one batch of work for one slot. `linger_ms` 0: one batch a job."""

    max_objects: int
    max_bytes: int
    max_seconds: int
    linger_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadLetterSettings:
    """The topic of bad records; `replication_factor` None: it has to be there already."""

    topic: str
    replication_factor: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorSettings:
    """What bad records and bad objects do. `dead_letter` is None unless bad records are tolerated."""

    tolerance: Tolerance
    dead_letter: DeadLetterSettings | None
    max_attempts: int
    retry_delay_ms: int
    retry_delay_max_ms: int
    log_enable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkSettings:
    """Where Spark runs; with `remote` (Spark Connect) `master` has no part in it."""

    master: str
    remote: Secret | None
    """Its URL may hold a token."""
    properties: tuple[Property, ...]

    def conf(self) -> dict[str, str]:
        """Return the `spark.*` properties given, master and remote left out, secrets revealed."""
        return revealed(self.properties)


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpSettings:
    """Where the endpoints answer; None is off."""

    listen: HostPort | None
    rest_listen: HostPort | None
    rest_auth_file: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceSettings:
    """How traces are exported; `endpoint` None leaves it to the environment of OpenTelemetry.

    Spans wait `delay_seconds`, or for `request_spans` of them; above `queue_spans` they are dropped.
    """

    endpoint: str | None
    queue_spans: int
    request_spans: int
    delay_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerSettings:
    """How long entries of vanished objects stay at least, and where the cache of the ledger lies."""

    retention_ms: int
    state_dir: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class JoiningSettings:
    """What of an archive is read together: nothing of it changes what a position in the ledger means.

    The ledger's entry names the objects that its position covers. An object waits `wait_ms` for those with
    its keys and headers.
    """

    sidecars: RestoreSidecars
    wait_ms: int
    tombstones: RestoreTombstones


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Everything that a configuration decides.

    `sqs` is None without a queue, `traces` where none are made, `sink` of a source. `warnings` are lines for
    the log at start. `shown` holds each option's effective value as it may be shown, `given` the names of
    those that the configuration names, `texts` of each of those its text as it was written and with its
    references replaced; `written` the same before a translation: all that was given, by the names it was
    given. `post_action` is what becomes of objects that are done. `of_worker` is what clients have of a
    worker's file, `kept_by_worker` names what that file has, brokers included, and lets no connector set.
    `translated` is what became of each option of another vendor's; into what is in `texts`, which hide it.
    """

    identity: IdentitySettings
    kafka: KafkaSettings
    s3: S3Settings
    sqs: SqsSettings | None
    discovery: DiscoverySettings
    routing: RoutingSettings
    format: FormatSettings
    joining: JoiningSettings
    jobs: JobSettings
    errors: ErrorSettings
    spark: SparkSettings
    http: HttpSettings
    ledger: LedgerSettings
    warnings: tuple[str, ...]
    shown: tuple[tuple[str, str], ...]
    given: frozenset[str]
    texts: tuple[tuple[str, Secret, Secret], ...]
    written: tuple[tuple[str, Secret, Secret], ...]
    sink: SinkSettings | None = None
    transforms: TransformChain = NO_TRANSFORMS
    post_action: PostAction | None = None
    traces: TraceSettings | None = None
    translated: tuple[TranslatedLine, ...] | None = None
    of_worker: tuple[tuple[str, Secret], ...] = ()
    kept_by_worker: frozenset[str] = frozenset()
    more_buckets: tuple[str, ...] = ()
    """Further buckets of a source, which are read as that of `s3` is."""

    @property
    def name(self) -> str:
        """The identity of this ingester."""
        return self.identity.name

    @property
    def state_dir(self) -> Path:
        """The folder for the cache of the ledger."""
        return self.ledger.state_dir

    def for_topic(self, topic: str) -> "Settings":
        """The settings in force for a topic of a sink."""
        route = None if self.sink is None else self.sink.route(topic)
        return self if route is None else self._for_route(route)

    def key_template(self) -> KeyTemplate:
        """`file.name.template`, compiled, of settings without a layout."""
        template = self.routing.file_name_template
        assert template is not None, "without input.layout a template is required"
        return KeyTemplate.compile(template, match=self.routing.file_name_match, prefix=self.s3.prefix)

    @property
    def buckets(self) -> tuple[str, ...]:
        """The buckets that a source reads, as they are listed; of a sink the one that has no route."""
        return self.s3.bucket, *self.more_buckets

    def by_place(self) -> tuple["Settings", ...]:
        """The settings of each bucket and prefix that a sink writes to, or of each bucket of a source."""
        if self.sink is None:
            places = (replace(self.s3, bucket=bucket) for bucket in self.buckets)
            return tuple(replace(self, s3=place, more_buckets=()) for place in places)
        routes = self.sink.routes
        found = {(each.s3.bucket, each.s3.prefix): each for each in map(self._for_route, routes)}
        return (self, *(each for place, each in found.items() if place != (self.s3.bucket, self.s3.prefix)))

    def _for_route(self, route: SinkRoute) -> "Settings":
        place = replace(self.s3, bucket=route.bucket, prefix=route.sink.names.prefix)
        return replace(self, s3=place, sink=route.sink)
