"""What a sink needs next to its topics: the bucket's rule for unfinished uploads, and the ledger."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.kafka.admin import KafkaAdmin
from headrace.kafka.ledger_topic import prepare_ledger_topic
from headrace.options import Settings
from ingest.checks.findings.bucket_lifecycle import (
    OUR_DAYS,
    Rule,
    TooManyRules,
    Transition,
    with_our_rule,
    with_our_transitions,
)
from ingest.checks.setup.steps import SetupError, Step
from listeners.discovery_events import error_code, translated_errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NO_RULES: Final = "NoSuchLifecycleConfiguration"


def sink_steps(
    settings: Settings, s3: "S3Client", admin: KafkaAdmin, transitions: Sequence[Transition] = ()
) -> tuple[Step, ...]:
    """What is missing of it; nothing is changed by asking. Blocks; SetupError, AccessDenied and the like.

    With `transitions` objects of the sink's prefixes are to move to these storage classes.
    """
    prefixes: dict[str, list[str]] = {}
    for each in settings.by_place():
        prefixes.setdefault(each.s3.bucket, []).append(each.s3.prefix)
    rules = (
        step for bucket, under in prefixes.items() for step in _rule_steps(s3, bucket, under, transitions)
    )
    return (*rules, *_ledger_steps(settings, admin))


def _rule_steps(
    s3: "S3Client", bucket: str, prefixes: Sequence[str], transitions: Sequence[Transition]
) -> Sequence[Step]:
    """One step at the most: S3 takes all rules of a bucket at once."""
    rules, more = _rules(s3, bucket)
    wanted, missing, moved = rules, [], []
    for prefix in prefixes:
        try:
            widened = with_our_rule(wanted, prefix)
        except TooManyRules:
            raise SetupError(
                f"s3://{bucket} has as many lifecycle rules as S3 takes: give one of them "
                f"AbortIncompleteMultipartUpload for the prefix {prefix!r}, or remove one."
            ) from None
        if widened is not None:
            wanted = widened
            missing.append(prefix)
        colder = with_our_transitions(wanted, prefix, transitions) if transitions else None
        if colder is not None:
            wanted = colder
            moved.append(prefix)
    if not (missing or moved):
        return ()
    rules_wanted: Any = {"Rules": wanted}

    def put() -> None:
        with translated_errors(f"the lifecycle configuration of s3://{bucket}"):
            s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules_wanted, **more)

    parts = []
    if missing:
        parts.append(f"end unfinished uploads in s3://{bucket}{_under(missing)} after {OUR_DAYS} days")
    if moved:
        colder_classes = ", then to ".join(map(str, transitions))
        parts.append(f"move objects in s3://{bucket}{_under(moved)} to {colder_classes}")
    what = "; ".join(parts)
    return (Step(sentence=f"{what} (lifecycle rules next to the {len(rules)} there)", apply=put),)


def _under(prefixes: Sequence[str]) -> str:
    return f" under {', '.join(map(repr, prefixes))}" if all(prefixes) else ""


def _rules(s3: "S3Client", bucket: str) -> tuple[Sequence[Rule], dict[str, Any]]:
    """The bucket's rules, and what else of its configuration has to be given back to keep it."""
    with translated_errors(f"the lifecycle configuration of s3://{bucket}"):
        try:
            found: Any = s3.get_bucket_lifecycle_configuration(Bucket=bucket)
        except ClientError as error:
            if error_code(error) == _NO_RULES:
                return (), {}
            raise
    size = "TransitionDefaultMinimumObjectSize"
    return found.get("Rules", ()), {size: found[size]} if size in found else {}


def _ledger_steps(settings: Settings, admin: KafkaAdmin) -> Sequence[Step]:
    topic = settings.kafka.ledger_topic
    if admin.has_topic(topic):
        return ()

    def make() -> None:
        prepare_ledger_topic(admin, topic)

    return (Step(sentence=f"create topic {topic!r}, the ledger, compacted, with one partition", apply=make),)
