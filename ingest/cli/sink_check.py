"""`headrace check` for a sink: bucket and uploads, topics and group, then ledger and transactions."""

from collections.abc import Iterator
from typing import Final

from headrace.model.errors import HeadraceError
from headrace.options import Settings
from ingest.checks.findings.finding import Finding, unusable
from ingest.checks.findings.sink_findings import topics_findings, upload_findings
from ingest.checks.findings.takeover_findings import takeover_findings
from ingest.checks.probes.aws_clients import aws_clients
from ingest.checks.probes.sink_topics import topics_facts
from ingest.checks.probes.sink_uploads import probe_uploads
from ingest.cli.takeover import probe_takeover

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
