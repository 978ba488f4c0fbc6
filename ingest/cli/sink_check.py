"""`headrace check` for a sink: bucket and uploads, topics and group, then ledger and transactions."""

from collections.abc import Iterator
from typing import Final

from ingest.checks.finding import Finding, unusable
from ingest.checks.sink_findings import upload_findings
from ingest.checks.sink_topic_findings import topics_findings
from ingest.checks.takeover_findings import takeover_findings
from ingest.cli.takeover import probe_takeover
from ingest.errors import HeadraceError
from ingest.probes.aws_clients import aws_clients
from ingest.probes.sink_topics import topics_facts
from ingest.probes.sink_uploads import probe_uploads
from ingest.settings import Settings

_LEDGER_SECONDS: Final = 30.0


def sink_findings(settings: Settings) -> Iterator[Finding]:
    """The findings about bucket and topics. Blocks."""
    try:
        clients = aws_clients(settings)
    except HeadraceError as error:
        yield unusable("bucket", str(error), "Give credentials: see aws.credentials.provider.")
    else:
        try:
            for each in settings.by_place():
                yield from upload_findings(each, probe_uploads(each, clients))
        finally:
            clients.close()
    yield from topics_findings(settings, topics_facts(settings))
    root = None if settings.sink is None else settings.sink.takeover_indexes
    if root is not None:
        yield from takeover_findings(root, probe_takeover(settings, timeout=_LEDGER_SECONDS))
