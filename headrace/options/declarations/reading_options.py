"""How objects are found and read: S3 and its credentials, the queue, listings."""

from headrace.options.aws_forms import PROVIDER, PROXY_URL
from headrace.options.choices import PollListing
from headrace.options.declarations.option import Group, option, optional, required
from headrace.options.record_forms import POST_ACTION_FORM
from headrace.options.value_types import (
    BOOLEAN,
    BUCKETS,
    ENDPOINT,
    GLOBS,
    KEY,
    KEY_PREFIX,
    MANIFESTS,
    QUEUE_URL,
    SECRET,
    TRIMMED,
    URL,
    choice,
    integer,
    long,
    matching,
)

_REGION = matching(r"[a-z0-9][a-z0-9-]{0,62}", "a region such as us-east-1")

BUCKET = required(
    "aws.s3.bucket.name",
    BUCKETS,
    Group.S3,
    "The bucket. A source may have several, separated by commas, in one region and with one "
    "`aws.s3.prefix`; one queue may announce the objects of all.",
    aliases=("aws_s3_bucket",),
)
PREFIX = option(
    "aws.s3.prefix",
    KEY_PREFIX,
    "",
    Group.S3,
    "Only keys that begin with it are looked at; it is sent with every listing.",
    importance="HIGH",
    aliases=("aws_s3_prefix",),
)
REGION = option(
    "aws.s3.region",
    _REGION,
    "us-east-1",
    Group.S3,
    "The region of the bucket, or of all of them. Where it is not given: AWS_REGION, AWS_DEFAULT_REGION, or "
    "that of the profile in AWS's files, before this default.",
    importance="HIGH",
    aliases=("aws_s3_region",),
)
ENDPOINT_URL = optional(
    "aws.s3.endpoint",
    ENDPOINT,
    Group.S3,
    "Another S3 than Amazon's; addresses are path-style then, unless `aws.s3.path.style.access` is `false`.",
    aliases=("aws_s3_endpoint",),
)
PATH_STYLE = optional(
    "aws.s3.path.style.access",
    BOOLEAN,
    Group.S3,
    "Whether the bucket is in the path of addresses instead of the host's name.",
    default_says="`true` with `aws.s3.endpoint`, else `false`",
    importance="LOW",
)
ACCESS_KEY_ID = optional(
    "aws.access.key.id",
    TRIMMED,
    Group.S3,
    "Static credentials, with `aws.secret.access.key`. Order: role, static keys, provider, default chain. "
    "Only static keys travel to executors; all else is resolved there.",
    importance="HIGH",
    aliases=("aws_access_key_id",),
)
SECRET_ACCESS_KEY = optional(
    "aws.secret.access.key",
    SECRET,
    Group.S3,
    "Static credentials, with `aws.access.key.id`.",
    importance="HIGH",
    aliases=("aws_secret_access_key",),
)
SESSION_TOKEN = optional(
    "aws.session.token",
    SECRET,
    Group.S3,
    "The token that belongs to temporary static credentials.",
)
PROVIDER_CLASS = optional(
    "aws.credentials.provider",
    PROVIDER,
    Group.S3,
    "Where credentials come from, as a class of the AWS SDK for Java; each is mapped to the same source "
    "here.",
    default_says="the default chain",
)
ROLE_ARN = optional(
    "aws.sts.role.arn",
    matching(r"arn:[a-z0-9-]+:iam::[0-9]{12}:role/\S+", "an ARN such as arn:aws:iam::123456789012:role/name"),
    Group.S3,
    "A role to assume; its credentials are refreshed before they expire.",
)
ROLE_SESSION_NAME = option(
    "aws.sts.role.session.name",
    matching(r"[A-Za-z0-9_+=,.@-]{2,64}", "2 to 64 of a-z A-Z 0-9 _ + = , . @ -"),
    "headrace",
    Group.S3,
    "How the role's session is called in CloudTrail.",
    importance="LOW",
)
ROLE_EXTERNAL_ID = optional(
    "aws.sts.role.external.id",
    matching(r"[A-Za-z0-9_+=,.@:/-]{2,1224}", "2 to 1,224 of a-z A-Z 0-9 _ + = , . @ : / -"),
    Group.S3,
    "The external id that the role's trust policy asks for.",
)
ROLE_DURATION = option(
    "aws.sts.role.session.duration",
    integer(900, 43_200, unit="seconds"),
    "3600",
    Group.S3,
    "How long the role's credentials are asked for.",
    importance="LOW",
)
STS_ENDPOINT = optional(
    "aws.sts.config.endpoint",
    URL,
    Group.S3,
    "Where the role is assumed.",
    default_says="the region's own",
    importance="LOW",
)
BACKOFF_DELAY = option(
    "aws.s3.backoff.delay.ms",
    integer(1, 3_600_000, unit="milliseconds"),
    "100",
    Group.S3,
    "First pause before one S3 call is repeated; it doubles from there.",
    importance="LOW",
)
BACKOFF_MAX_DELAY = option(
    "aws.s3.backoff.max.delay.ms",
    integer(1, 3_600_000, unit="milliseconds"),
    "20000",
    Group.S3,
    "Longest pause before one S3 call is repeated.",
    importance="LOW",
)
BACKOFF_MAX_RETRIES = option(
    "aws.s3.backoff.max.retries",
    integer(0, 30),
    "3",
    Group.S3,
    "Retries of one S3 call; 3 retries are 4 calls. After that the object goes back and is tried later.",
    importance="LOW",
)
REQUESTER_PAYS = option(
    "aws.s3.requester.pays",
    BOOLEAN,
    "false",
    Group.S3,
    "Agree to pay for requests on a requester-pays bucket.",
    importance="LOW",
)
CA_BUNDLE = optional(
    "aws.ca.bundle",
    TRIMMED,
    Group.S3,
    "File of PEM certificates that AWS endpoints are checked against.",
    importance="LOW",
)
PROXY = optional(
    "aws.s3.proxy.url",
    PROXY_URL,
    Group.S3,
    "The proxy through which S3 is reached.",
    default_says="that of the usual environment variables, as for all other addresses",
    importance="LOW",
)
PROXY_USER = optional(
    "aws.s3.proxy.user",
    TRIMMED,
    Group.S3,
    "The user that the proxy asks for, where the URL has none.",
    importance="LOW",
)
PROXY_PASSWORD = optional(
    "aws.s3.proxy.password",
    SECRET,
    Group.S3,
    "The password of `aws.s3.proxy.user`.",
    importance="LOW",
)

QUEUE = optional(
    "sqs.queue.url",
    QUEUE_URL,
    Group.SQS,
    "The queue of object notifications. Absent: listing only.",
    importance="HIGH",
)
SQS_ENDPOINT = optional(
    "sqs.endpoint",
    URL,
    Group.SQS,
    "Another SQS than Amazon's.",
    default_says="the host of the queue's URL, unless it is Amazon's",
)
SQS_REGION = optional(
    "sqs.region",
    _REGION,
    Group.SQS,
    "The queue's region.",
    default_says="the region that the queue's URL names, else the region of the bucket",
)
SQS_WAIT = option(
    "sqs.wait.time.seconds",
    integer(1, 20, unit="seconds"),
    "20",
    Group.SQS,
    "How long one receive waits for messages. Shorter costs requests and brings nothing forward.",
    importance="LOW",
)
SQS_VISIBILITY = optional(
    "sqs.visibility.timeout.seconds",
    integer(1, 43_200, unit="seconds"),
    Group.SQS,
    "How long a received message stays invisible before the first heartbeat.",
    default_says="the queue's own",
    importance="LOW",
)
SQS_RECEIVERS = option(
    "sqs.receivers", integer(1, 64), "2", Group.SQS, "Concurrent receivers.", importance="LOW"
)
SQS_MAX_HELD = option(
    "sqs.max.held",
    integer(1, 120_000),
    "2000",
    Group.SQS,
    "Messages held at once, waiting ones included. What waits for something outside (a `failed` object, "
    "what it holds back, `object.min.age.ms`, a restore's first listing) does not count when the bound is "
    "reached: up to 100,000 of these are held next to it, a tenth of `max.pending.objects` where they wait "
    "for the listing. SQS itself ends at 120,000.",
    importance="LOW",
)
FALLBACK_AFTER = option(
    "events.fallback.after.ms",
    integer(100, 86_400_000, unit="milliseconds"),
    "30000",
    Group.SQS,
    "The queue failing for this long switches to listing at the poll cadence. The queue is still tried, and "
    "its return ends the fallback after one full listing.",
)

POLL_INTERVAL = option(
    "poll.interval.ms",
    integer(100, 86_400_000, unit="milliseconds"),
    "10000",
    Group.DISCOVERY,
    "Cadence of listings when there is no queue or it fails.",
    importance="HIGH",
)
POLL_LISTING = option(
    "poll.listing",
    choice(PollListing),
    "auto",
    Group.DISCOVERY,
    "`full`: the whole prefix every time. `incremental`: from the last key, for keys that only grow. "
    "`auto`: full while the last full listing took less than a quarter of `poll.interval.ms`; after one that "
    "took longer the next comes in eight times its time, then in sixteen times, and so on up to "
    "`reconcile.interval.ms`.",
)
RECONCILE_INTERVAL = option(
    "reconcile.interval.ms",
    integer(1_000, 2**53, unit="milliseconds", also=0),
    "3600000",
    Group.DISCOVERY,
    "How often a full listing runs whenever events or incremental listings are in use. 0: only at each "
    "start (an error with `poll.listing=incremental` and no queue).",
)
INCLUDE_EXISTING = option(
    "include.existing",
    BOOLEAN,
    "true",
    Group.DISCOVERY,
    "`true`: the first start ingests what is already there. `false`: listings ignore what is older than the "
    "first start; events are never filtered. A multipart upload that was under way then is new, though S3 "
    "dates it back to its beginning (needs `s3:ListBucketMultipartUploads`).",
)
NATIVE_START_KEY = optional(
    "native.start.key",
    KEY,
    Group.DISCOVERY,
    "The first start with a bucket and a prefix ignores in listings keys up to and including this one.",
)
INITIAL_INVENTORY = option(
    "initial.inventory",
    MANIFESTS,
    "",
    Group.DISCOVERY,
    "`s3://BUCKET/KEY` of the `manifest.json` of an S3 Inventory of the bucket, or several, separated by "
    "commas. The first start takes objects from there before its first full listing, which finds what is "
    "newer. Not with `ordering=partition`, `input.layout` or `include.existing=false`.",
    importance="LOW",
)
OBJECT_INCLUDE = option(
    "object.include",
    GLOBS,
    "",
    Group.DISCOVERY,
    "Only keys that one of these globs matches are ingested. Empty: all.",
)
OBJECT_EXCLUDE = option(
    "object.exclude",
    GLOBS,
    "",
    Group.DISCOVERY,
    "Keys that one of these globs matches are left out, whatever `object.include` says.",
)
MIN_AGE = option(
    "object.min.age.ms",
    integer(0, 86_400_000, unit="milliseconds"),
    "0",
    Group.DISCOVERY,
    "How old an object has to be before it is read, for writers that overwrite what they have just written.",
    importance="LOW",
)
MAX_PENDING = option(
    "max.pending.objects",
    integer(1, 100_000_000),
    "100000",
    Group.DISCOVERY,
    "Objects known and not yet done. Above it listing pauses; receiving is bounded by `sqs.max.held`. Where "
    "nothing of them gets further for a minute, as one fails each time, `problems.pending` names it.",
    importance="LOW",
)
MAX_BYTES_PER_SECOND = optional(
    "max.bytes.per.second",
    long(1_024, unit="bytes"),
    Group.DISCOVERY,
    "Limit on reading from S3, all slots together.",
    default_says="no limit",
)
POST_ACTION = option(
    "post.action",
    POST_ACTION_FORM,
    "none",
    Group.DELIVERY,
    "What is done with an object once all of its records are committed: `delete`; `move:PREFIX`, within the "
    "bucket, `aws.s3.prefix` replaced by PREFIX; `move:s3://BUCKET/PREFIX`, to another bucket; "
    "`tag:KEY=VALUE`, next to the tags that it has. Only objects that end while the option is set, only the "
    "content that was read, and none with bad records. Repeated until it succeeds, after a restart too. What "
    "lies under a move's PREFIX of the bucket is never read.",
)
POST_ACTION_UNCONDITIONAL = option(
    "post.action.unconditional",
    BOOLEAN,
    "false",
    Group.DELIVERY,
    "For S3-compatible stores without conditional deletes (If-Match), where `post.action` fails else: only "
    "the look just before a delete tells whether the content is still the one that was read. Use it where "
    "keys are never overwritten.",
    importance="LOW",
)
