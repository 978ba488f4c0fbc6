"""Whether the bucket takes a sink's uploads: one is begun, given a part, ended. Nothing is ever visible."""

from collections.abc import Callable, Sequence
from uuid import uuid4

from botocore.exceptions import ClientError

from headrace.model.errors import HeadraceError, InvalidConfiguration
from headrace.options import Settings
from headrace.s3.upload_calls import UploadCalls, new_upload_calls
from ingest.checks.findings.bucket_lifecycle import Rule
from ingest.checks.findings.finding import Cause, Refused
from ingest.checks.findings.sink_findings import UploadFacts
from ingest.checks.probes.bucket_keys import AwsClients
from ingest.checks.probes.probe_calls import refused
from listeners.discovery_events import error_code, translated_errors


def probe_uploads(settings: Settings, clients: AwsClients) -> UploadFacts:
    """What the bucket answers, asked with the sink's own options. Blocks on five calls."""
    assert settings.sink is not None, "a source uploads nothing"
    rules = _rules(clients, settings.s3.bucket)
    try:
        calls = new_upload_calls(settings.s3, settings.sink.upload)
    except HeadraceError as error:
        return UploadFacts(begin=_refused(error), part=None, abort=None, missing=None, rules=rules)
    return _probe(calls, settings, rules)


def _probe(calls: UploadCalls, settings: Settings, rules: Sequence[Rule] | Refused) -> UploadFacts:
    bucket, probe_id = settings.s3.bucket, uuid4().hex
    key = f"{settings.s3.prefix}headrace-check-{probe_id}"
    try:
        upload = calls.begin(bucket, key, object_id=probe_id)
    except HeadraceError as error:
        return UploadFacts(begin=_refused(error), part=None, abort=None, missing=None, rules=rules)
    part = _outcome(lambda: bool(calls.part(bucket, key, upload, 1, b"headrace check")))
    abort = _outcome(lambda: calls.abort(bucket, key, upload))
    missing = _outcome(lambda: calls.head_metadata(bucket, key) is None)
    return UploadFacts(begin=True, part=part, abort=abort, missing=missing, rules=rules)


def _outcome(call: Callable[[], bool]) -> bool | Refused:
    try:
        return call()
    except HeadraceError as error:
        return _refused(error)


def _refused(error: HeadraceError) -> Refused:
    if isinstance(error, InvalidConfiguration):
        return Refused(Cause.OPTION, str(error))
    return refused(error)


def _rules(clients: AwsClients, bucket: str) -> Sequence[Rule] | Refused:
    try:
        with translated_errors(f"the lifecycle configuration of s3://{bucket}"):
            try:
                rules: Sequence[Rule] = clients.s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
            except ClientError as error:
                if error_code(error) == "NoSuchLifecycleConfiguration":
                    return ()
                raise
    except HeadraceError as error:
        return refused(error)
    return rules
