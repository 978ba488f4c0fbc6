"""The bucket read for a person's question: clients, its keys page by page, its inventory's manifests.

Clients block, have little patience and repeat nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import tenacity
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from headrace.aws.aws_credentials import SigningCredentials, is_anonymous, session_with, usable_configuration
from headrace.aws.store_answers import (
    following,
    listed_by_head,
    listed_objects,
    refuse_strangers,
    showing_restores,
    without_etag,
)
from headrace.formats.inventory_manifest import InventoryRefused, Manifest
from headrace.model.errors import (
    AccessDenied,
    HeadraceError,
    ObjectMissing,
    ResourceMissing,
    SourceUnavailable,
    first_refusal,
)
from headrace.model.objects import S3Object
from headrace.options import Settings
from headrace.options.aws_forms import is_amazons, proxy_config
from headrace.options.settings import S3Settings
from headrace.process.threads import of_each
from headrace.s3.inventory_manifests import read_manifests, unread_files
from headrace.s3.s3_calls import S3Calls
from ingest.checks.findings.finding import Finding, misconfigured, ok, unusable, warn
from listeners.discovery_events import translated_errors

T = TypeVar("T")

_PAGE_KEYS: Final = 1000
_HEADS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysPage:
    """What S3 listed in (`after_key`, `through_key`], None being the prefix's start and its end."""

    after_key: str | None
    through_key: str | None
    objects: tuple[S3Object, ...]


def list_pages(
    client: Any, settings: S3Settings, *, prefix: str, sleep: Callable[[float], None] = time.sleep
) -> Iterator[KeysPage]:
    """All keys that begin with `prefix`. Each page blocks.

    What passes by itself is repeated (`aws.s3.backoff.*`). AccessDenied, SourceUnavailable.
    """
    position: str | None = None
    token: dict[str, Any] = {}
    call = showing_restores(client.list_objects_v2, settings.bucket)
    while True:
        answer = _asked(call, settings, prefix=prefix, token=token, sleep=sleep)
        more = following(answer, token, what=f"aws.s3.bucket.name = {settings.bucket!r}")
        entries = answer.get("Contents", ())
        lacking = without_etag(entries)
        head = partial(_head, client, settings, sleep=sleep)
        heads = dict(
            zip(lacking, of_each(head, lacking, at_once=_HEADS_AT_ONCE, name="key-head"), strict=True)
        )
        objects = tuple(listed_objects(settings.bucket, entries, heads))
        last = entries[-1]["Key"] if entries else position
        yield KeysPage(
            after_key=position,
            through_key=None if more is None else last,
            objects=objects,
        )
        if more is None:
            return
        position, token = last, more


def of_each_bucket(
    places: Sequence[Settings], read: Callable[[Settings], Iterable[T]], refused: dict[str, HeadraceError]
) -> Iterator[T]:
    """What is read of each bucket; of several one that answers is enough, as for `run`.

    Why another does not goes into `refused`, by the bucket's name. Where none answers, raises what holds up a
    start.
    """
    for place in places:
        try:
            yield from read(place)
        except HeadraceError as error:
            refused[place.s3.bucket] = error
    if len(refused) == len(places):
        raise first_refusal(refused.values())


def unreached_buckets(settings: Settings) -> list[str]:
    """A sentence for each bucket of a sink that does not answer. Blocks on a call each.

    ResourceMissing for one that is not there. One that may not be listed is: of a missing one S3 says so to
    everyone.
    """
    found: list[str] = []
    try:
        clients = aws_clients(settings)
    except HeadraceError as error:
        return [str(error)]
    try:
        for s3 in {each.s3.bucket: each.s3 for each in settings.by_place()}.values():
            try:
                with translated_errors(f"s3://{s3.bucket}"):
                    clients.s3.list_objects_v2(Bucket=s3.bucket, Prefix=s3.prefix, MaxKeys=1)
            except ResourceMissing:
                raise
            except AccessDenied:
                continue
            except HeadraceError as error:
                found.append(str(error))
    finally:
        clients.close()
    return found


def unlisted(refused: Mapping[str, HeadraceError]) -> list[str]:
    """A sentence for each bucket of several that was not listed to its end."""
    return [
        f"{error} The other buckets are read; of this one at most the beginning is shown."
        for error in refused.values()
    ]


def object_request(settings: S3Settings, wanted: S3Object) -> dict[str, Any]:
    """What a GET of the object begins with: where it is, and who pays."""
    payer = {"RequestPayer": "requester"} if settings.requester_pays else {}
    return {"Bucket": wanted.id.bucket, "Key": wanted.id.key, **payer}


def _head(client: Any, settings: S3Settings, key: str, *, sleep: Callable[[float], None]) -> S3Object | None:
    """The object of an entry of which the store leaves the ETag out; None for one that is gone."""
    bucket = settings.bucket
    payer = {"RequestPayer": "requester"} if settings.requester_pays else {}

    def ask() -> S3Object:
        with translated_errors(f"s3://{bucket}/{key}"):
            return listed_by_head(bucket, key, client.head_object(Bucket=bucket, Key=key, **payer))

    try:
        return _attempts(settings, sleep)(ask)
    except ObjectMissing:
        return None


def _asked(
    call: Callable[..., Mapping[str, Any]],
    settings: S3Settings,
    *,
    prefix: str,
    token: Mapping[str, Any],
    sleep: Callable[[float], None],
) -> Mapping[str, Any]:
    arguments: dict[str, Any] = {"Bucket": settings.bucket, "Prefix": prefix, "MaxKeys": _PAGE_KEYS, **token}
    if settings.requester_pays:
        arguments["RequestPayer"] = "requester"

    def ask() -> Mapping[str, Any]:
        with translated_errors(f"aws.s3.bucket.name = {settings.bucket!r}"):
            return call(**arguments)

    return _attempts(settings, sleep)(ask)


def _attempts(settings: S3Settings, sleep: Callable[[float], None]) -> tenacity.Retrying:
    backoff = settings.backoff
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(SourceUnavailable),
        stop=tenacity.stop_after_attempt(1 + backoff.max_retries),
        wait=tenacity.wait_random_exponential(
            multiplier=backoff.delay_ms / 1000, max=backoff.max_delay_ms / 1000
        ),
        sleep=sleep,
        reraise=True,
    )


_CONNECT_SECONDS: Final = 5
_READ_SECONDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsClients:
    """The bucket's S3 and the queue's SQS (None without `sqs.queue.url`), with the same credentials."""

    s3: Any
    sqs: Any | None

    def close(self) -> None:
        """Give the connections back."""
        self.s3.close()
        if self.sqs is not None:
            self.sqs.close()


def aws_clients(settings: Settings) -> AwsClients:
    """New clients as the settings describe them. AccessDenied when there are no credentials."""
    s3, sqs = settings.s3, settings.sqs
    config = _config(s3)
    credentials = _credentials(s3)
    if not is_anonymous(s3.credentials):
        # Before all questions, which would each be answered by the same sentence.
        credentials.get_frozen_credentials()
    with usable_configuration():
        session = session_with(credentials, region=s3.region)
        of_s3 = session.create_client(
            "s3",
            region_name=s3.region,
            endpoint_url=s3.endpoint,
            config=config.merge(Config(proxies=proxy_config(s3.proxy))),
            verify=s3.ca_bundle,
        )
        of_s3.meta.events.register("after-call.s3", refuse_strangers)
        return AwsClients(
            s3=of_s3,
            sqs=None
            if sqs is None
            else session.create_client(
                "sqs", region_name=sqs.region, endpoint_url=sqs.endpoint, config=config, verify=s3.ca_bundle
            ),
        )


def own_account(settings: Settings) -> str | None:
    """The number of the account that the queue's SQS takes the credentials for; None where STS does not say.

    Amazon's own needs no permission for it; what stands for SQS elsewhere often is STS as well. Blocks.
    """
    s3, sqs = settings.s3, settings.sqs
    if sqs is None or is_anonymous(s3.credentials):
        return None
    try:
        with usable_configuration():
            sts: Any = session_with(_credentials(s3), region=s3.region).create_client(
                "sts",
                region_name=sqs.region,
                endpoint_url=None if is_amazons(sqs.endpoint) else sqs.endpoint,
                config=_config(s3),
                verify=s3.ca_bundle,
            )
        with closing(sts):
            return str(sts.get_caller_identity()["Account"])
    except (BotoCoreError, ClientError, HeadraceError, KeyError):
        return None


def _config(s3: S3Settings) -> Config:
    return Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        s3={"addressing_style": s3.addressing_style},
        signature_version=UNSIGNED if is_anonymous(s3.credentials) else None,
    )


def _credentials(s3: S3Settings) -> SigningCredentials:
    return SigningCredentials(s3.credentials, region=s3.region, ca_bundle=s3.ca_bundle)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFacts:
    """One manifest, or why it, or one of its files, cannot be read."""

    url: str
    manifest: Manifest | None
    problem: HeadraceError | None

    def as_dict(self) -> dict[str, Any]:
        """The JSON shape."""
        found = self.manifest
        return {
            "manifest": self.url,
            "created": None if found is None else found.created,
            "format": None if found is None else str(found.form),
            "files": None if found is None else len(found.files),
            "bytes": None if found is None else found.bytes,
            "problem": None if self.problem is None else str(self.problem),
        }

    @property
    def line(self) -> str:
        """What people are shown."""
        if self.problem is not None or self.manifest is None:
            return f"problem   {self.problem}"
        return f"the next start takes objects first from {self.manifest.summary}"


def probe_inventories(client: Any, settings: Settings, urls: Sequence[str]) -> list[InventoryFacts]:
    """Each manifest as the first start would read it; blocks on two GETs, and a HEAD a file."""
    s3 = settings.s3
    calls = S3Calls(client, backoff=s3.backoff, requester_pays=s3.requester_pays)
    return [_probe(calls, url, settings.buckets) for url in urls]


def inventory_findings(facts: Iterable[InventoryFacts], *, has_begun: bool) -> Iterator[Finding]:
    """One finding each. `has_begun`: the ledger is there, so that the first start may be over."""
    for one in facts:
        name, error = "inventory", one.problem
        if error is None and one.manifest is not None:
            yield ok(name, one.manifest.summary)
        elif not isinstance(error, InventoryRefused):
            yield unusable(name, str(error), "Check aws.s3.endpoint, aws.s3.region and the credentials.")
        elif has_begun:
            fix = f"{error.fix} Once the first start is over, initial.inventory can be removed."
            yield warn(name, error.sentence, fix)
        else:
            yield misconfigured(name, error.sentence, error.fix)


def _probe(calls: S3Calls, url: str, buckets: Sequence[str]) -> InventoryFacts:
    manifest = None
    try:
        (manifest,) = read_manifests(calls, [url], buckets=buckets)
        problem: HeadraceError | None = next(unread_files(calls, manifest), None)
    except HeadraceError as error:
        problem = error
    return InventoryFacts(url=url, manifest=manifest, problem=problem)
