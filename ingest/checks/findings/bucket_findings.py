"""Findings about the bucket."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.model.objects import PostAction, PostActionKind, S3Object
from headrace.model.text_formatting import counted
from headrace.options.aws_forms import rights_on
from headrace.options.settings import S3Settings
from ingest.checks.findings.archive_findings import ArchiveSample, Sample
from ingest.checks.findings.finding import Cause, Finding, Refused, misconfigured, ok, unusable, warn
from ingest.source.catalogue import ExclusionReason, ObjectFilter

# S3 refuses requests whose time is off by more than 15 minutes; a minute is already not normal.
_SKEW_FAILS_MS: Final = 900_000
_SKEW_WARNS_MS: Final = 60_000
# So many endings of keys are looked at, an object each.
_SAMPLES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSample:
    """What one topic is given by the keys that were looked at: the highest partition, and the key with it."""

    partition: int | None
    key: str


@dataclass(slots=True, kw_only=True)
class Survey:
    """The first keys of the bucket, judged as `run` would. `is_whole`: there are no others."""

    listed: int = 0
    is_whole: bool = True
    taken: int = 0
    topics: dict[str, TopicSample] = field(default_factory=dict)
    left_out: dict[ExclusionReason, list[str]] = field(default_factory=dict)
    archived: list[str] = field(default_factory=list)
    filled_folders: list[str] = field(default_factory=list)
    """Keys that end with a slash, which are taken for a folder's mark, and yet hold something.

    None that globs leave out.
    """
    keys: list[str] = field(default_factory=list)
    """Keys that `run` would take."""
    samples: dict[str, S3Object] = field(default_factory=dict)
    """Objects that can be tried to be read (taken, not empty, not archived): the first of each ending."""
    last: S3Object | None = None
    """The last one of these."""

    def add(self, objects: Iterable[S3Object], object_filter: ObjectFilter) -> None:
        """Judge some more."""
        for s3_object in objects:
            self.listed += 1
            route = object_filter.listed_route_or_reason(s3_object)
            if isinstance(route, ExclusionReason):
                self.left_out.setdefault(route, []).append(s3_object.id.key)
                is_folder = route is ExclusionReason.FOLDER and s3_object.size
                if is_folder and not object_filter.is_excluded(s3_object.id.key):
                    self.filled_folders.append(s3_object.id.key)
                continue
            self.taken += 1
            self.keys.append(s3_object.id.key)
            keep_highest(
                self.topics, route.topic, TopicSample(partition=route.partition, key=s3_object.id.key)
            )
            if s3_object.is_archived:
                self.archived.append(s3_object.id.key)
            elif s3_object.size:
                if len(self.samples) < _SAMPLES:
                    self.samples.setdefault(_ending(s3_object.id.key), s3_object)
                self.last = s3_object

    def add_topics(self, topics: dict[str, TopicSample]) -> None:
        """Add what each topic is given by these keys to what it is given by others."""
        for topic, sample in self.topics.items():
            keep_highest(topics, topic, sample)

    @property
    def all_keys(self) -> list[str]:
        """Those that `run` would take, and the others."""
        return [*self.keys, *(key for keys in self.left_out.values() for key in keys)]

    @property
    def sample(self) -> S3Object | None:
        """One object that can be tried to be read."""
        return next(iter(self.samples.values()), None)

    @property
    def to_sample(self) -> list[S3Object]:
        """A few objects that show what there is: one of each ending, and the last."""
        found = {
            s3_object.id: s3_object
            for s3_object in (*self.samples.values(), *([self.last] if self.last else []))
        }
        return list(found.values())

    @property
    def scope(self) -> str:
        """How much was looked at, for a sentence."""
        return counted(self.listed, "key") if self.is_whole else f"the first {self.listed:,} keys"


def keep_highest(topics: dict[str, TopicSample], topic: str, sample: TopicSample) -> None:
    """Add what one key gives the topic, unless another key gives it a higher partition."""
    best = topics.get(topic)
    if best is None or _rank(sample.partition) > _rank(best.partition):
        topics[topic] = sample


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFacts:
    """What the bucket answered. None for a call that made no sense after an earlier answer."""

    region: str | None
    """As S3 says it; None when it does not."""
    survey: Survey | Refused
    skew_ms: int | None
    """Our clock minus S3's."""
    get: bool | Refused | None
    """True when the sample can be read."""
    get_version: bool | Refused | None
    """The same by version id; None too when the bucket has no versions."""
    samples: Sequence[Sample] = ()
    """The first bytes of some objects."""
    archive: Sequence[ArchiveSample] = ()
    """Of an archive: what some objects say of their rows."""
    move_target: Refused | None = None
    """Why the other bucket that `post.action` moves to cannot be looked at."""


def bucket_there(settings: S3Settings, facts: BucketFacts) -> Finding:
    """Whether the bucket exists and can be reached with these credentials."""
    name, url = "bucket", f"s3://{settings.bucket}"
    if not isinstance(facts.survey, Refused):
        return ok(name, f"{url} is there")
    words = facts.survey.words
    match facts.survey.cause:
        case Cause.MISSING:
            return misconfigured(
                name,
                f"{url} is not there: {words}",
                "Create it, or correct aws.s3.bucket.name (aws.s3.endpoint when it is not Amazon's S3).",
            )
        case Cause.CREDENTIALS:
            return unusable(
                name,
                f"{url}: the credentials are refused: {words}",
                "Correct aws.access.key.id and aws.secret.access.key, the role or the provider; renew what "
                "has expired.",
            )
        case Cause.UNREACHED | Cause.OTHER:
            return unusable(
                name,
                f"{url} cannot be asked: {words}",
                "Check aws.s3.endpoint, aws.s3.region, aws.ca.bundle where its certificate is not trusted, "
                "and the network (proxies come from the environment).",
            )
        case _:
            # What stands in the way has a finding of its own: the region, the permission to list, the clock.
            return ok(name, f"{url} is there, as far as S3 tells while it may not be listed")


def bucket_region(settings: S3Settings, facts: BucketFacts) -> Finding | None:
    """Whether `aws.s3.region` is the bucket's."""
    name = "region"
    elsewhere = isinstance(facts.survey, Refused) and facts.survey.cause is Cause.ELSEWHERE
    if facts.region is None:
        if not elsewhere:
            return None
        return misconfigured(
            name,
            f"s3://{settings.bucket} is in another region than {settings.region}.",
            "Set aws.s3.region to the bucket's region (aws s3api get-bucket-location).",
        )
    if facts.region != settings.region:
        # Amazon's own endpoints redirect, at the price of a second request; nothing else does.
        return misconfigured(
            name,
            f"s3://{settings.bucket} is in {facts.region}, not in {settings.region}.",
            f"Set aws.s3.region={facts.region}.",
        )
    return ok(name, f"the bucket is in {settings.region}")


def may_list(settings: S3Settings, facts: BucketFacts) -> Finding | None:
    """Whether keys under the prefix can be listed."""
    name = "list"
    if isinstance(facts.survey, Survey):
        return ok(name, f"{facts.survey.scope} listed under s3://{settings.bucket}/{settings.prefix}")
    if facts.survey.cause is not Cause.DENIED:
        return None
    return unusable(
        name,
        f"s3://{settings.bucket}/{settings.prefix} may not be listed: {facts.survey.words}",
        f"Allow {rights_on(settings.arn, 's3:ListBucket')} (a condition on s3:prefix has to admit "
        f"{settings.prefix!r}). Without it no start is complete, and a missing object looks forbidden.",
    )


def may_get(settings: S3Settings, facts: BucketFacts) -> Finding | None:
    """Whether an object can be read."""
    name = "get"
    if facts.get is None or not isinstance(facts.survey, Survey) or facts.survey.sample is None:
        return None
    url = facts.survey.sample.id.url
    if not isinstance(facts.get, Refused):
        return ok(name, f"{url} can be read")
    if facts.get.cause is Cause.DENIED:
        return unusable(
            name,
            f"{url} may not be read: {facts.get.words}",
            f"Allow {rights_on(settings.objects_arn, 's3:GetObject')}, and kms:Decrypt on the key "
            "if the objects are encrypted with one.",
        )
    if facts.get.cause is Cause.KEY:
        return unusable(
            name, f"{url} cannot be read: {facts.get.words}", "See the sentence: it says what helps."
        )
    return unusable(
        name,
        f"{url} cannot be read: {facts.get.words}",
        "Look at this object; if others can be read, it alone will be tried again and then be quarantined.",
    )


def may_get_version(settings: S3Settings, facts: BucketFacts) -> Finding | None:
    """Whether an object can be read by its version id."""
    name = "get by version"
    if facts.get_version is None:
        return None
    if not isinstance(facts.get_version, Refused):
        return ok(name, "the bucket has versions, and they can be read")
    return warn(
        name,
        f"the bucket has versions, and they may not be read: {facts.get_version.words}",
        f"Allow {rights_on(settings.objects_arn, 's3:GetObjectVersion')}. Without it an "
        "object that is overwritten before it is read is skipped (superseded).",
    )


def archived(settings: S3Settings, facts: BucketFacts) -> Finding | None:
    """Whether objects lie in an archive, where they cannot be read."""
    if not isinstance(facts.survey, Survey) or not facts.survey.archived:
        return None
    found = facts.survey.archived
    return warn(
        "archives",
        f"of {facts.survey.scope}, {len(found):,} lie in an archive storage class, "
        f"such as s3://{settings.bucket}/{found[0]}; they are skipped.",
        "Restore those that are wanted: the restore, or the next listing after it, brings them in.",
    )


def keys_match(settings: S3Settings, facts: BucketFacts) -> Finding | None:
    """Whether the template takes the keys that are there."""
    name = "keys"
    if not isinstance(facts.survey, Survey):
        return None
    survey = facts.survey
    where = f"s3://{settings.bucket}/{settings.prefix}"
    if not survey.listed:
        found = ok(name, f"{where} holds nothing yet")
        fix = "Correct aws.s3.prefix, if something should be there."
        return warn(name, f"{found.sentence}.", fix) if settings.prefix else found
    unmatched = survey.left_out.get(ExclusionReason.UNMATCHED, [])
    if unmatched and not survey.taken:
        return misconfigured(
            name,
            f"file.name.template takes none of {survey.scope}; {unmatched[0]!r} does not match.",
            f"Correct it: `headrace explain CONFIG {unmatched[0]!r}` says how far it gets.",
        )
    if unmatched:
        return warn(
            name,
            f"file.name.template takes {survey.taken:,} of {survey.scope}; {len(unmatched):,} do not match, "
            f"such as {unmatched[0]!r}.",
            "If they should: `headrace explain` says why not, `headrace plan` counts them all.",
        )
    if not survey.taken:
        reasons = ", ".join(f"{reason} ({len(keys):,})" for reason, keys in sorted(survey.left_out.items()))
        return warn(
            name,
            f"all of {survey.scope} are left out: {reasons}.",
            "If they should not be: look at object.include, object.exclude and post.action; `headrace plan` "
            "names examples of each reason.",
        )
    return ok(name, f"file.name.template takes {survey.taken:,} of {survey.scope}")


def folders(_settings: S3Settings, facts: BucketFacts) -> Finding | None:
    """Whether keys that are taken for a folder's mark hold something, which is never read."""
    if not isinstance(facts.survey, Survey) or not facts.survey.filled_folders:
        return None
    found = facts.survey.filled_folders
    return warn(
        "folders",
        f"of {facts.survey.scope}, {len(found):,} are not empty and end with /, such as {found[0]!r}: they "
        "are taken for marks of folders, and give nothing.",
        "If they should be read: copy them to keys that do not end so; else leave them out (object.exclude).",
    )


def clocks_agree(_settings: S3Settings, facts: BucketFacts) -> Finding | None:
    """Whether this machine's clock and S3's agree."""
    name = "clock"
    if facts.skew_ms is None:
        return None
    seconds = abs(facts.skew_ms) / 1000
    direction = "ahead of" if facts.skew_ms > 0 else "behind"
    sentence = f"this machine's clock is {seconds:,.0f} s {direction} S3's"
    remedy = "Synchronise the clock (NTP): S3 refuses requests that are off by more than 15 minutes."
    if abs(facts.skew_ms) > _SKEW_FAILS_MS:
        return unusable(name, f"{sentence}.", remedy)
    if abs(facts.skew_ms) > _SKEW_WARNS_MS:
        return warn(name, f"{sentence}.", remedy)
    return ok(name, "this machine's clock and S3's agree")


def _ending(key: str) -> str:
    """What a key ends in, such as jsonl.gz: objects of one ending are likely to be of one format."""
    return key.rpartition("/")[2].partition(".")[2]


def _rank(partition: int | None) -> int:
    return -1 if partition is None else partition


BUCKET_CHECKS: Final = (
    bucket_there,
    bucket_region,
    may_list,
    may_get,
    may_get_version,
    archived,
    keys_match,
    folders,
    clocks_agree,
)


def move_target(action: PostAction | None, facts: BucketFacts) -> Finding | None:
    """Whether the other bucket that objects move to can be looked at; None where there is none."""
    bucket = None if action is None or action.kind is not PostActionKind.MOVE else action.moves_to[0]
    if bucket is None:
        return None
    name, refusal = "post action", facts.move_target
    if refusal is None:
        return ok(name, f"s3://{bucket}, which objects move to, is there")
    fix = "Correct post.action, create the bucket, or give the rights on it that `headrace policy` lists."
    return misconfigured(name, f"s3://{bucket}, which objects move to: {refusal.words}", fix)


def start_key_fits(start_key: str | None, facts: BucketFacts) -> Finding | None:
    """Whether listings bring none of the keys that are there, as all come before `native.start.key`."""
    survey = facts.survey
    if start_key is None or not isinstance(survey, Survey) or not survey.is_whole or not survey.keys:
        return None
    if max(survey.keys) > start_key:
        return None
    return warn(
        "start key",
        f"native.start.key = {start_key!r}: none of {survey.scope} comes after it.",
        "Correct it, if they should be ingested; it counts at the first start, and leaves out no event.",
    )
