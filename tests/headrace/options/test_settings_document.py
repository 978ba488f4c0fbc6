"""`docs/options.md` says what the table says, and the table says it about every option."""

from pathlib import Path

import pytest

from headrace.options import OPTIONS
from headrace.options.declarations import CANONICAL
from headrace.options.declarations.option import MEANT, WITHOUT_MEANING, Option
from headrace.options.document import document

PAGE = Path(__file__).parents[3] / "docs" / "options.md"


def test_the_page_is_what_the_table_says() -> None:
    """Run `python -m headrace.options.document > docs/options.md` when this fails."""
    assert PAGE.read_text(encoding="utf-8") == document(), (
        "docs/options.md is stale: run python -m headrace.options.document > docs/options.md"
    )


def test_every_option_is_on_the_page_once() -> None:
    """Every option is on the page once."""
    page = document()

    assert all(page.count(f"### `{option.name}`\n") == 1 for option in OPTIONS)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_whole(option: Option[object]) -> None:
    """A sentence, a default that its own form takes, and no default where it is required."""
    assert option.doc.endswith(".")
    assert not (option.required and option.default is not None)
    if option.default is not None:
        option.form.parse(option.default)


def test_names_do_not_collide() -> None:
    """No spelling means two options, and nothing without a meaning is an option."""
    spellings = [name for option in OPTIONS for name in (option.name, *option.aliases)]

    assert len(spellings) == len(set(spellings)) == len(CANONICAL)
    assert not set(spellings) & set(WITHOUT_MEANING)
    assert set(MEANT.values()) <= CANONICAL.keys()
    assert not MEANT.keys() & CANONICAL.keys()


CONTRACT = """
transforms predicates
name connector.class bootstrap.servers instance.id lead.session.timeout.ms tasks.max aws.s3.bucket.name
aws.s3.prefix aws.s3.region aws.s3.endpoint aws.access.key.id aws.secret.access.key aws.session.token
aws.credentials.provider aws.sts.role.arn aws.sts.role.session.name aws.sts.role.external.id
aws.sts.role.session.duration aws.sts.config.endpoint aws.s3.backoff.delay.ms aws.s3.backoff.max.delay.ms
aws.s3.backoff.max.retries aws.s3.requester.pays aws.ca.bundle
aws.s3.proxy.url aws.s3.proxy.user aws.s3.proxy.password sqs.queue.url sqs.endpoint sqs.region
sqs.wait.time.seconds sqs.visibility.timeout.seconds sqs.receivers sqs.max.held events.fallback.after.ms
poll.interval.ms poll.listing reconcile.interval.ms include.existing native.start.key
initial.inventory object.include
object.exclude object.min.age.ms max.pending.objects max.bytes.per.second file.name.template file.name.match
topic distribution.type ordering input.format file.compression.type transformer.max.buffer.size
record.max.bytes decode.unit.max.bytes key.source value.source value.format key.converter value.converter
schema.registry.url json.format record.headers record.timestamp producer.partitioner exactly.once.support
offsets.storage.topic transaction.boundary.interval.ms transaction.boundary.records job.max.objects
job.max.bytes job.max.seconds job.linger.ms topic.creation.default.partitions
topic.creation.default.replication.factor input.envelope input.envelope.base64 errors.tolerance
errors.deadletterqueue.topic.name errors.deadletterqueue.topic.replication.factor errors.max.attempts
errors.retry.delay.ms errors.retry.delay.max.ms errors.log.enable spark.master spark.remote
ledger.retention.ms state.dir http.listen rest.listen rest.auth.file
traces.exporter traces.endpoint
input.layout layout.indexes restore.topic.map restore.partition restore.value restore.key restore.header
restore.timestamp restore.envelope store.envelope format.output.envelope format.output.fields
format.output.fields.value.encoding
file.delim format.bytearray.separator restore.sidecars restore.sidecars.wait.ms restore.tombstones
tombstone.encoded.partition directory.delim restore.keys.format
csv.delimiter csv.quote csv.header csv.columns csv.types text.start.pattern text.end.pattern text.pattern
text.types text.null text.exact json.path record.fields
input.archive input.archive.members input.archive.max.members input.archive.max.bytes input.archive.max.ratio
topics topics.regex topics.regex.internal output.layout file.name.timestamp.source
file.name.timestamp.timezone output.format
output.fields output.envelope header.converter file.compression.level rotate.records rotate.bytes
rotate.age.ms rotate.span.ms rotate.schedule.ms schema.compatibility buffer.max.bytes buffer.dir
max.open.files post.action post.action.unconditional takeover.indexes
takeover.connector
open.object.max.age.ms behavior.on.null.values aws.s3.part.size aws.s3.object.tags aws.s3.storage.class
aws.s3.acl aws.s3.sse aws.s3.sse.kms.key.id aws.s3.sse.customer.algorithm aws.s3.sse.customer.key
aws.s3.path.style.access sidecars output.separator sidecars.keys.format sidecars.headers.format
sidecars.keys.compression.type sidecars.headers.compression.type sidecars.tombstones.directory
sidecars.tombstones.template
output.value.encoding output.avro.codec file.name.values file.name.missing file.name.null.keys
file.name.unique file.name.locale output.bytes.extension json.decimal.format output.avro.enhanced.schemas
output.avro.connect.metadata output.avro.optional.map.keys
rotate.age.from rotate.together rotate.on.group.change rotate.on.stop output.newlines
aws.s3.max.connections file.name.timestamp.round.ms
"""


def test_every_option_that_was_promised_is_there() -> None:
    """Every option that was promised is there, and beside them only details of converters and registry."""
    names = {option.name for option in OPTIONS}

    assert set(CONTRACT.split()) <= names
    assert all(
        name.startswith(("schema.registry.", "aws.glue.")) or name.endswith(".converter.schemas.enable")
        for name in names - set(CONTRACT.split())
    )
