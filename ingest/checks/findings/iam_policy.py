"""The least IAM policy of a configuration: what `run` calls, and what the commands call next to it. Pure.

Where Kafka is an MSK cluster that the configuration logs in to by IAM, the cluster's actions are among them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from headrace.formats.inventory_manifest import inventory_folder
from headrace.model.errors import InvalidConfiguration
from headrace.model.objects import PostActionKind
from headrace.model.text_formatting import printable
from headrace.names.archive_names import LayoutName
from headrace.options import Settings
from headrace.options.aws_forms import (
    CREATE_SESSION,
    express_action,
    is_express,
    is_session_write,
    objects_arn,
    partition_of,
    policy_arn,
)
from headrace.options.schema_settings import GlueSettings
from headrace.options.sink_settings import Encryption, SinkSettings
from headrace.options.token_logins import IamLogin, token_login
from headrace.options.transforms.read_chain import known_topics
from ingest.checks.findings.bucket_lifecycle import Rule, with_our_rule

Statement = dict[str, Any]

_CLUSTER: Final = re.compile(r"arn:aws[a-z-]*:kafka:[a-z0-9-]+:\d{12}:cluster/[^/\s*]+/[^/\s*]+")
_READ: Final = ("DescribeTopic", "ReadData")
_WRITE: Final = (*_READ, "WriteData", "DescribeTopicDynamicConfiguration")


def cluster_of(settings: Settings, given: str | None) -> str | None:
    """The ARN of the cluster, with words in capitals for what the configuration does not say.

    None where no client logs in by IAM. InvalidConfiguration for an ARN that is not a cluster's.
    """
    login = _login(settings)
    if given is None:
        return None if login is None else _regional("kafka", login.region, "ACCOUNT:cluster/CLUSTER/UUID")
    if _CLUSTER.fullmatch(given) is None:
        raise InvalidConfiguration(
            f"--cluster-arn {printable(given)!r} is not the ARN of an MSK cluster. "
            "`aws kafka list-clusters-v2` prints it: arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID."
        )
    if login is None:
        raise InvalidConfiguration(
            "--cluster-arn is for a cluster with AWS IAM, and no client of this configuration logs in by it. "
            "Leave it out, or set sasl.mechanism=AWS_MSK_IAM."
        )
    return given


def _login(settings: Settings) -> IamLogin | None:
    """The first client's log-in by IAM; with `admin.override.*` and the like not every client has one."""
    kafka = settings.kafka
    logins = (token_login(kafka.client(role)) for role in ("producer", "consumer", "admin"))
    return next((each for each in logins if isinstance(each, IamLogin)), None)


def run_statements(settings: Settings, cluster: str) -> list[Statement]:
    """For `run`: the table of ACLs in docs/security.md in MSK's words."""
    sink = settings.sink
    groups = [settings.identity.group_id, *([] if sink is None else [sink.group_id])]
    found = _leading(settings.name, groups, settings.kafka.ledger_topic, cluster)
    if sink is not None:
        read = _named(cluster, "topic", list(sink.topics.names) or ["*"])
        found.append(_allow("kafkaRead", list(_READ), read))
    if written := _written(settings):
        creates = ["CreateTopic"] if settings.kafka.topic_creation is not None else []
        found.append(_allow("kafkaWrite", [*_WRITE, *creates], _named(cluster, "topic", written)))
    return found


def _leading(name: str, groups: list[str], topic: str, cluster: str) -> list[Statement]:
    """What every leadership needs: its groups, its transactions, and the topic of what it remembers."""
    return [
        _allow("kafkaCluster", ["Connect", "WriteDataIdempotently"], [cluster]),
        _allow(
            "kafkaTransactions",
            ["DescribeTransactionalId", "AlterTransactionalId"],
            _named(cluster, "transactional-id", [f"{name}-*"]),
        ),
        _allow("kafkaGroups", ["DescribeGroup", "AlterGroup"], _named(cluster, "group", groups)),
        _allow("kafkaLedger", [*_WRITE, "CreateTopic"], _named(cluster, "topic", [topic])),
    ]


def worker_policies(frame: Settings, *, name: str, topic: str, cluster: str | None = None) -> dict[str, Any]:
    """The document of a worker itself, next to those of its connectors: it calls Kafka alone.

    `name` is that of the workers' leadership, `topic` their configurations', `cluster` as for `policies`.
    """
    cluster = cluster_of(frame, cluster)
    groups = [replace(frame.identity, name=name).group_id]
    return {"worker": _document([] if cluster is None else _leading(name, groups, topic, cluster))}


def setup_statements(settings: Settings, cluster: str) -> list[Statement]:
    """For `setup`: to make the topics that the configuration names, and the ledger."""
    topics = [settings.kafka.ledger_topic, *(each for each in _written(settings) if each != "*")]
    return [
        _allow("kafkaConnect", ["Connect"], [cluster]),
        _allow("kafkaTopics", ["DescribeTopic", "CreateTopic"], _named(cluster, "topic", topics)),
    ]


def _written(settings: Settings) -> list[str]:
    """The topics that records and dead letters go to; `*` where keys or records name them."""
    found: dict[str, None] = {}
    if settings.sink is None:
        topics = known_topics(settings.transforms, settings.routing.topic)
        found |= dict.fromkeys(sorted(topics) or ["*"])
    if (dead := settings.errors.dead_letter) is not None:
        found[dead.topic] = None
    return ["*"] if "*" in found else list(found)


def _named(cluster: str, kind: str, names: list[str]) -> list[str]:
    """The ARNs of topics, groups or transactional ids, which begin as the cluster's does."""
    return [f"{cluster.replace(':cluster/', f':{kind}/')}/{name}" for name in dict.fromkeys(names)]


def _allow(sid: str, actions: list[str], places: list[str]) -> Statement:
    resource = places[0] if len(places) == 1 else places
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Action": [f"kafka-cluster:{each}" for each in actions],
        "Resource": resource,
    }


VERSION: Final = "2012-10-17"
# Where Lenses' sink keeps an object until its lock says that it is there.
_LENSES_COPIES: Final = ".temp-upload/"


def policies(settings: Settings, *, cluster: str | None = None) -> dict[str, Any]:
    """The documents by who needs them: `run`; `check` and `setup` next to it; a sink's lifecycle rule.

    `cluster` is the ARN of the MSK cluster, for a configuration that logs in to it by IAM.
    """
    cluster = cluster_of(settings, cluster)
    on_run = [] if cluster is None else run_statements(settings, cluster)
    on_setup = [] if cluster is None else setup_statements(settings, cluster)
    if settings.sink is None:
        return {
            "run": _document([*_source_run(settings), *on_run]),
            "check": _document(_source_check(settings)),
            "setup": _document([*_source_setup(settings), *on_setup]),
        }
    rule = _on_bucket(settings, "setup", "s3:GetLifecycleConfiguration", "s3:PutLifecycleConfiguration")
    return {
        "run": _document([*_sink_run(settings, settings.sink), *on_run]),
        "check": _document([]),
        "setup": _document([rule, *on_setup]),
        "lifecycle": {"Rules": _rules(settings)},
    }


def _rules(settings: Settings) -> Sequence[Rule]:
    """The lifecycle rules of all of a sink's prefixes; each is for the buckets that have that prefix."""
    rules: Sequence[Rule] = ()
    for each in settings.by_place():
        rules = with_our_rule(rules, each.s3.prefix) or rules
    return rules


def _sink_run(settings: Settings, sink: SinkSettings) -> list[Statement]:
    upload = sink.upload
    actions = ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:GetObject"]
    if upload.tags or upload.offset_tags:
        actions.append("s3:PutObjectTagging")
    if upload.acl is not None:
        actions.append("s3:PutObjectAcl")
    found = [
        _listing(settings),
        # When the bucket itself ends uploads decides which ones that are gone count as ended by others.
        _on_bucket(settings, "lifecycle", "s3:GetLifecycleConfiguration"),
        _on_objects(settings, "uploads", *actions),
        *_takeover(settings, sink),
    ]
    if upload.encryption in {Encryption.KMS, Encryption.KMS_DSSE}:
        key = upload.kms_key_id or ""
        if not key.startswith("arn:"):
            key = f"arn:{partition_of(settings.s3.region)}:kms:*:*:key/*"
        found.append(_grant("key", ["kms:GenerateDataKey", "kms:Decrypt"], key))
    return [*found, *_glue(sink)]


def _glue(sink: SinkSettings) -> list[Statement]:
    """Schemas are looked up by their version's id, which says nothing of the registry that has it."""
    parts = (sink.converters.key, sink.converters.value)
    if not any(isinstance(each.registry, GlueSettings) for each in parts):
        return []
    return [_grant("schemas", ["glue:GetSchemaVersion"], "*")]


def _takeover(settings: Settings, sink: SinkSettings) -> list[Statement]:
    """What going on after Lenses' sink does to its locks, and to copies that it had under way."""
    if sink.takeover_indexes is None:
        return []
    buckets = dict.fromkeys(each.s3.arn for each in settings.by_place())
    locks = [objects_arn(bucket, f"{sink.takeover_indexes.strip('/')}/*") for bucket in buckets]
    copies = [objects_arn(bucket, f"{_LENSES_COPIES}*") for bucket in buckets]
    taken = ["s3:GetObject", "s3:GetObjectTagging", "s3:DeleteObject"]
    return [
        _grant("takeoverLocks", ["s3:GetObject", "s3:PutObject"], _one_or_all(locks)),
        _grant("takeoverCopies", taken, _one_or_all(copies)),
        _on_objects(settings, "takeoverObjects", "s3:PutObjectTagging"),
    ]


def _source_run(settings: Settings) -> list[Statement]:
    found = [_listing(settings), _on_objects(settings, "objects", "s3:GetObject", "s3:GetObjectVersion")]
    if not settings.discovery.include_existing:
        # An upload that was under way at the first start is dated before it, and yet new.
        found.append(_on_bucket(settings, "uploads", "s3:ListBucketMultipartUploads"))
    restore = settings.format.restore
    if restore is not None and restore.layout in {None, LayoutName.CONFLUENT}:
        # Where tombstones belong, by the offsets in the tags of value objects.
        found.append(_on_objects(settings, "tags", "s3:GetObjectTagging"))
    found += [*_inventory(settings), *_glue_writing(settings), *_post_action(settings)]
    if settings.sqs is not None:
        actions = ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes"]
        found.append(_grant("queue", [f"sqs:{action}" for action in actions], _queue(settings)))
    return found


def _inventory(settings: Settings) -> list[Statement]:
    """The manifests of `initial.inventory` and the files that they name; the first start alone needs them."""
    urls = settings.discovery.initial_inventory
    folders = [inventory_folder(url).split("/", 1) for url in urls]
    places = dict.fromkeys(
        objects_arn(policy_arn(bucket, settings.s3.region), f"{folder}*") for bucket, folder in folders
    )
    return [_grant("inventory", ["s3:GetObject"], _one_or_all(list(places)))] if places else []


def _glue_writing(settings: Settings) -> list[Statement]:
    """The versions of schemas that values name in Glue's registry."""
    glue = settings.format.glue
    if glue is None:
        return []
    actions = ["glue:GetSchemaByDefinition", "glue:GetSchemaVersion"]
    if glue.auto_register:
        actions += ["glue:RegisterSchemaVersion", "glue:CreateSchema"]
    names = (f"*:registry/{glue.registry}", f"*:schema/{glue.registry}/*")
    return [_grant("schemas", actions, [_regional("glue", glue.where.region, name) for name in names])]


def _post_action(settings: Settings) -> list[Statement]:
    """What `post.action` does to objects next to reading them."""
    action = settings.post_action
    if action is None:
        return []
    tagging = ["s3:GetObjectTagging", "s3:PutObjectTagging"]
    if action.kind is PostActionKind.DELETE:
        return [_on_objects(settings, "delete", "s3:DeleteObject")]
    if action.kind is PostActionKind.TAG:
        versions = [each.replace("Object", "ObjectVersion") for each in tagging]
        return [_on_objects(settings, "tag", *tagging, *versions)]
    bucket, prefix = action.moves_to
    buckets = settings.buckets if bucket is None else (bucket,)
    targets = [policy_arn(each, settings.s3.region) for each in buckets]
    put = ["s3:GetObject", "s3:PutObject", "s3:PutObjectTagging", "s3:AbortMultipartUpload"]
    # What is at the target already is looked at, and without a listing what is not there looks forbidden.
    return [
        _on_objects(settings, "moveFrom", "s3:DeleteObject", "s3:GetObjectTagging"),
        _grant("moveTo", put, _one_or_all([objects_arn(each, f"{prefix}*") for each in targets])),
        _grant("moveToList", ["s3:ListBucket"], _one_or_all(targets)),
    ]


def _source_check(settings: Settings) -> list[Statement]:
    return [] if settings.sqs is None else [_on_bucket(settings, "check", "s3:GetBucketNotification")]


def _source_setup(settings: Settings) -> list[Statement]:
    if settings.sqs is None:
        return []
    queue = _queue(settings)
    actions = ["CreateQueue", "SetQueueAttributes", "GetQueueUrl", "GetQueueAttributes"]
    return [
        _on_bucket(settings, "setup", "s3:GetBucketNotification", "s3:PutBucketNotification"),
        _grant("queues", [f"sqs:{action}" for action in actions], [queue, f"{queue}-dead-letters"]),
    ]


def _listing(settings: Settings) -> Statement:
    """Without it a missing object looks forbidden."""
    statement = _on_bucket(settings, "list", "s3:ListBucket")
    prefixes = list(dict.fromkeys(f"{each.s3.prefix}*" for each in settings.by_place()))
    if settings.sink is not None and settings.sink.takeover_indexes is not None:
        prefixes += [f"{settings.sink.takeover_indexes.strip('/')}/*", f"{_LENSES_COPIES}*"]
    if "*" not in prefixes:
        statement["Condition"] = {"StringLike": {"s3:prefix": _one_or_all(prefixes)}}
    return statement


def _on_bucket(settings: Settings, sid: str, *actions: str) -> Statement:
    buckets = dict.fromkeys(each.s3.arn for each in settings.by_place())
    return _grant(sid, actions, _one_or_all(list(buckets)))


def _on_objects(settings: Settings, sid: str, *actions: str) -> Statement:
    places = [each.s3.objects_arn for each in settings.by_place()]
    return _grant(sid, actions, _one_or_all(places))


def _one_or_all(texts: list[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else texts


def _queue(settings: Settings) -> str:
    """The queue's ARN, as far as its URL tells; `*` for the account of one that has none in its path."""
    assert settings.sqs is not None, "no queue is configured"
    *_, account, name = ("*", *settings.sqs.queue_url.rstrip("/").split("/")[3:])
    return _regional("sqs", settings.sqs.region, f"{account}:{name}")


def _regional(service: str, region: str, rest: str) -> str:
    """The ARN of what is in a region; `rest` begins with the account."""
    return f"arn:{partition_of(region)}:{service}:{region}:{rest}"


def _grant(sid: str, actions: Sequence[str], resource: str | list[str]) -> Statement:
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": resource}


def _document(statements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"Version": VERSION, "Statement": _by_kind(statements)}


def _by_kind(statements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same with what each kind of bucket has: directory buckets sessions, access points no lifecycle."""
    found: list[Mapping[str, Any]] = []
    writes: dict[str, bool] = {}
    for each in statements:
        resource, actions = each["Resource"], each["Action"]
        places = [resource] if isinstance(resource, str) else resource
        express = list(dict.fromkeys(filter(is_express, places)))
        if not express and not _is_of_lifecycle(actions):
            found.append(each)
            continue
        if ordinary := [place for place in places if _may_have(place, actions)]:
            found.append({**each, "Resource": _one_or_all(ordinary)})
        names = dict.fromkeys(map(express_action, actions))
        if CREATE_SESSION in names:
            is_write = any(map(is_session_write, actions))
            writes |= {place: is_write or writes.get(place, False) for place in express}
        rules = [name for name in names if name not in {None, CREATE_SESSION}]
        if express and rules:
            found.append(_grant(f"{each['Sid']}Express", [str(name) for name in rules], _one_or_all(express)))
    return [*found, *_sessions(writes)]


def _may_have(place: str, actions: Sequence[str]) -> bool:
    """Whether a policy may have these actions on the place; the bucket itself is asked for its lifecycle."""
    return not is_express(place) and not (":accesspoint/" in place and _is_of_lifecycle(actions))


def _is_of_lifecycle(actions: Sequence[str]) -> bool:
    return any("Lifecycle" in action for action in actions)


def _sessions(writes: Mapping[str, bool]) -> Iterator[Statement]:
    """Sessions of directory buckets, by whether something is written there."""
    if reading := [place for place, is_write in writes.items() if not is_write]:
        only = {"StringEquals": {"s3express:SessionMode": "ReadOnly"}}
        yield _grant("readSessions", [CREATE_SESSION], _one_or_all(reading)) | {"Condition": only}
    if writing := [place for place, is_write in writes.items() if is_write]:
        yield _grant("sessions", [CREATE_SESSION], _one_or_all(writing))
