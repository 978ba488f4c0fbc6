"""`headrace check`: the configuration, then what it points at, one line each, with the fix."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import typer

from headrace.kafka.kafka_clients import ClientRefused
from headrace.model.errors import Exit, HeadraceError, InvalidConfiguration
from headrace.model.text_formatting import printable
from headrace.options import Settings, SettingsError
from headrace.process import logs
from ingest.checks.findings.archive_findings import archive_findings, format_fits
from ingest.checks.findings.bucket_findings import (
    BUCKET_CHECKS,
    BucketFacts,
    Survey,
    TopicSample,
    keys_match,
    move_target,
    start_key_fits,
)
from ingest.checks.findings.finding import (
    BROKERS_FIX,
    Cause,
    Finding,
    Refused,
    Verdict,
    exit_of,
    machine_findings,
    misconfigured,
    ok,
    warn,
    without_credentials,
)
from ingest.checks.findings.kafka_findings import (
    KAFKA_CHECKS,
    TOPIC_CHECKS,
    KafkaFacts,
    TopicFacts,
    brokers_there,
)
from ingest.checks.findings.queue_findings import (
    OF_THE_BUCKET,
    QUEUE_CHECKS,
    BucketAndQueue,
    QueueFacts,
    filters_fit,
)
from ingest.checks.probes.bucket_keys import (
    AwsClients,
    InventoryFacts,
    aws_clients,
    inventory_findings,
    probe_inventories,
)
from ingest.checks.probes.machine import probe_machine, registry_findings
from ingest.checks.probes.probe_calls import probe_bucket, probe_kafka, probe_queue
from ingest.cli import cli_options as cli
from ingest.cli.configuration import environment, read_settings
from ingest.source.catalogue import Baseline
from ingest.source.object_selection import object_filter_of

# What `run` reports as a problem of the one bucket, and starts.
_OF_ONE: Final = frozenset({"bucket", "region", "list", "get"})
# What no queue of another region can have; a bucket that is elsewhere has it.
_OF_REGION: Final = frozenset({"region", "queue region", "notification"})


def check(
    config: cli.Config,
    *,
    as_json: cli.AsJson = False,
    sets: cli.Sets = None,
    worker_config: cli.WorkerConfig = None,
    log_level: cli.Level = cli.LogLevel.ERROR,
    log_format: cli.Format = cli.LogFormat.CONSOLE,
) -> None:
    """Check the configuration and what it points at: Java, bucket, queue, topics, ledger, transactions.

    One line each, and under those that need it, what to do. Reads the beginning of a few objects (64 KiB of
    six at most, and more where restored ones begin with long or bad rows) to see whether input.format fits,
    and writes nothing: it is safe next to a running service.
    Ends with 0, with 2 when the configuration is wrong, or with 3 when something it points at is not usable;
    warnings do not count.
    """
    logs.configure(level=log_level.value, style=log_format.value)
    findings = []
    for finding in findings_of(config, tuple(sets or ()), worker_config):
        findings.append(finding)
        cli.Report(finding.as_dict(), lines_of(finding)).show(as_json=as_json)
    code = exit_of(findings)
    if not as_json:
        typer.echo(_summary(findings))
    if code is not Exit.DONE:
        raise typer.Exit(int(code))


def findings_of(config: Path, sets: tuple[str, ...], worker_config: Path | None) -> Iterator[Finding]:
    """All findings, each group as soon as it is known. Blocks."""
    try:
        settings = read_settings(config, sets=sets, worker_config=worker_config)
    except InvalidConfiguration as error:
        cause = error.__cause__
        yield misconfigured(
            "configuration",
            str(error),
            "Correct these options; docs/options.md describes each.",
            count=len(cause.problems) if isinstance(cause, SettingsError) else 1,
        )
        return
    yield ok("configuration", f"{config} is valid")
    for warning in settings.warnings:
        yield warn("configuration", warning, "It works as it is; docs/options.md describes what it names.")
    yield from machine_findings(probe_machine(settings, environment()))
    yield from registry_findings(settings)
    try:
        yield from _findings(settings)
    except ClientRefused as error:
        # What comes before is known all the same, and nothing comes after it without a client.
        yield misconfigured("brokers", str(error), BROKERS_FIX)


def lines_of(finding: Finding) -> Iterator[str]:
    """What people are shown."""
    first, *rest = finding.sentence.splitlines() or [""]
    yield f"{finding.verdict:<4}  {finding.name}: {printable(first)}"
    yield from (f"      {printable(line)}" for line in rest)
    if finding.remedy is not None:
        yield f"      -> {printable(finding.remedy)}"


def _findings(settings: Settings) -> Iterator[Finding]:
    if settings.sink is not None:
        # A source has no use for it.
        from ingest.cli.sink_check_and_plan import sink_findings

        target = yield from sink_findings(settings)
        yield from kafka_findings(settings, probe_kafka(settings, {}, target=target))
        return
    buckets: list[BucketFacts] = []
    inventories: list[InventoryFacts] = []
    try:
        clients = aws_clients(settings)
    except HeadraceError as error:
        yield without_credentials(error)
    else:
        try:
            for place in settings.by_place():
                # Without a baseline: what is there already shows what keys look like as well.
                bucket = probe_bucket(place, clients, object_filter_of(place, Baseline()))
                buckets.append(bucket)
                if len(settings.buckets) == 1:
                    yield from bucket_findings(place, bucket)
            if len(buckets) > 1:
                yield from _of_several(settings, buckets)
            inventories = probe_inventories(clients.s3, settings, settings.discovery.initial_inventory)
            if settings.sqs is None:
                yield ok("queue", "no queue is configured: objects are found by listing the bucket")
            else:
                yield from _queue_findings(settings, clients, buckets)
        finally:
            clients.close()
    topics: dict[str, TopicSample] = {}
    for bucket in buckets:
        if isinstance(bucket.survey, Survey):
            bucket.survey.add_topics(topics)
    kafka = probe_kafka(settings, topics)
    yield from inventory_findings(inventories, has_begun=isinstance(kafka.ledger, TopicFacts))
    yield from kafka_findings(settings, kafka)


def _of_several(settings: Settings, buckets: Sequence[BucketFacts]) -> Iterator[Finding]:
    """The findings about each of several buckets: `run` starts when one can be listed."""
    are_all_missing = all(
        isinstance(bucket.survey, Refused) and bucket.survey.cause is Cause.MISSING for bucket in buckets
    )
    for place, bucket in zip(settings.by_place(), buckets, strict=True):
        for finding in bucket_findings(place, bucket):
            found = finding
            if finding.name in _OF_ONE and _is_of_one(settings, finding, buckets):
                found = _of_one(finding, bucket, buckets)
            elif finding.exit is Exit.CONFIGURATION and finding.name == "bucket" and not are_all_missing:
                # `run` waits for the others.
                found = replace(finding, exit=Exit.UNUSABLE)
            yield from _of_bucket(place, settings, [found])


def _is_of_one(settings: Settings, finding: Finding, buckets: Sequence[BucketFacts]) -> bool:
    """Whether a failure is of one bucket and holds up no start: not where the option is wrong for all."""
    regions = {bucket.region for bucket in buckets}
    is_option_wrong = len(regions) == 1 and not regions & {None, settings.s3.region}
    is_any_read = any(isinstance(bucket.survey, Survey) for bucket in buckets)
    return finding.verdict is Verdict.FAIL and is_any_read and not is_option_wrong


def _of_one(finding: Finding, bucket: BucketFacts, buckets: Sequence[BucketFacts]) -> Finding:
    """What holds up none of the other buckets, as the warning that it is."""
    remedy = finding.remedy
    if finding.name in _OF_REGION:
        option = "its own aws.s3.region" if bucket.region is None else f"aws.s3.region={bucket.region}"
        remedy = f"Give it a source of its own, with {option}: buckets of one source are in one region."
    sentence = finding.sentence
    if any(other is not bucket and isinstance(other.survey, Survey) for other in buckets):
        sentence = f"{sentence.removesuffix('.')}; the other buckets are read."
    return replace(finding, verdict=Verdict.WARN, sentence=sentence, remedy=remedy, exit=Exit.DONE)


def _of_bucket(place: Settings, settings: Settings, findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings about one bucket; where there are several their names have it."""
    for finding in findings:
        is_only = len(settings.buckets) == 1
        yield finding if is_only else replace(finding, name=f"{finding.name} {place.s3.bucket}")


def _queue_findings(
    settings: Settings, clients: AwsClients, buckets: Sequence[BucketFacts]
) -> Iterator[Finding]:
    """What is so of the queue once, and for each bucket whether it tells the queue."""
    said: set[str] = set()
    for place, bucket in zip(settings.by_place(), buckets, strict=True):
        queue = probe_queue(place, clients, bucket_region=bucket.region)
        for finding in queue_findings(place, queue, bucket):
            if finding.name in OF_THE_BUCKET:
                is_elsewhere = finding.name in _OF_REGION and bucket.region not in {None, settings.s3.region}
                is_of_one = is_elsewhere and _is_of_one(settings, finding, buckets)
                found = _of_one(finding, bucket, buckets) if is_of_one else finding
                yield from _of_bucket(place, settings, [found])
            elif finding.name not in said:
                said.add(finding.name)
                yield finding


def bucket_findings(settings: Settings, facts: BucketFacts) -> Iterator[Finding]:
    """The findings about the bucket."""
    restore = settings.format.restore
    for one in BUCKET_CHECKS:
        if one is keys_match and restore is not None:
            continue
        if (finding := one(settings.s3, facts)) is not None:
            yield finding
    if (finding := start_key_fits(settings.discovery.native_start_key, facts)) is not None:
        yield finding
    if (finding := move_target(settings.post_action, facts)) is not None:
        yield finding
    if restore is not None:
        if isinstance(facts.survey, Survey):
            yield from archive_findings(restore, facts.survey.all_keys, facts.archive)
    elif (finding := format_fits(settings.format.input_format, facts.samples)) is not None:
        yield finding


def queue_findings(settings: Settings, facts: QueueFacts, bucket: BucketFacts) -> Iterator[Finding]:
    """The findings about the queue; the keys that were seen tell whether a filter hides them."""
    assert settings.sqs is not None, "no queue is configured"
    place = BucketAndQueue(settings.s3, settings.sqs)
    for one in QUEUE_CHECKS:
        if (finding := one(place, facts)) is not None:
            yield finding
    keys = bucket.survey.keys if isinstance(bucket.survey, Survey) else []
    if (finding := filters_fit(place, facts, keys)) is not None:
        yield finding


def kafka_findings(settings: Settings, facts: KafkaFacts) -> Iterator[Finding]:
    """The findings about Kafka: those of each topic, then those of the ledger."""
    brokers = brokers_there(settings, facts)
    yield brokers
    if brokers.verdict is Verdict.FAIL:
        return
    for topic in facts.topics:
        for of_topic in TOPIC_CHECKS:
            if (finding := of_topic(settings, facts, topic)) is not None:
                yield finding
    for one in KAFKA_CHECKS:
        if (finding := one(settings, facts)) is not None:
            yield finding


def _summary(findings: list[Finding]) -> str:
    failures = sum(finding.count for finding in findings if finding.verdict is Verdict.FAIL)
    warnings = sum(finding.verdict is Verdict.WARN for finding in findings)
    if failures:
        return f"{failures} to correct, {warnings} to look at."
    return "Ready to run." if not warnings else f"Ready to run; {warnings} to look at."
