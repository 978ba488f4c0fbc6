"""docs/commands.md shows the JSON of each command as the command prints it: a field more or less is seen."""

import ast
import json
import re
from pathlib import Path
from types import NoneType
from typing import Any

import pytest

from headrace.kafka.cache_files import CachedEntry
from headrace.model.ledger_entry import LedgerEntry, State, encode_entry
from headrace.model.objects import ObjectId, S3Object
from headrace.model.positions import BytePosition
from headrace.names.archive_names import LayoutName
from headrace.options.choices import NameOptions
from headrace.options.declarations.sink_options import ROTATE_RECORDS
from headrace.vendors.exactness import Aspect, Exactness, Grade
from headrace.vendors.key_names import ArchiveNames
from ingest.checks.findings.archive_findings import ArchiveSample
from ingest.checks.findings.finding import misconfigured
from ingest.checks.findings.sink_findings import TakeoverFacts
from ingest.checks.probes.archive_preview import ArchivePreview
from ingest.checks.probes.bucket_keys import InventoryFacts
from ingest.checks.probes.preview import Preview
from ingest.checks.probes.sink_topics import Backlog
from ingest.checks.probes.status_reader import entry_shape
from ingest.checks.setup import Step
from ingest.cli.configuration_commands import lint_shape as lint_shape_of
from ingest.cli.configuration_commands import shape_of as option_shape_of
from ingest.cli.configuration_commands import translated_shape as translation_shape_of
from ingest.cli.explain import explained
from ingest.cli.object_command import CommandRequest, SelectedObject, shape_of
from ingest.cli.plan import shape_of as plan_shape_of
from ingest.cli.setup import shape_of as step_shape_of
from ingest.cli.sink_check_and_plan import shape_of as sink_plan_shape_of
from ingest.cli.sink_explain import RecordExplainer, sample_record
from ingest.cli.sink_explain import shape_of as record_shape_of
from ingest.http.snapshot import ReadingObject, RecentObject, Snapshot
from ingest.source.object_selection import object_filter_of, object_filters_of
from tests.docs.pages import ROOT
from tests.headrace.vendors.vendor_example import load_example
from tests.ingest.checks.findings.configured import configured

DOCUMENT = Path(__file__).parents[3] / "docs" / "commands.md"
# Names in these come from the ingester's life, not from its code.
OPEN = {"config", "objects", "bad_records", "slots", "problems", "states", "left_out", "position"}
_KINDS = {NoneType: None, bool: "true or false", int: "number", float: "number", str: "text"}

KEYS = [f"topics/t/partition=0/t+0+{offset:010}.json" for offset in (0, 4, 7)]
SEEN = S3Object(id=ObjectId("uploads", "in/a", "e"), size=25, last_modified_ms=1)
ENTRY = LedgerEntry(
    state=State.QUARANTINED,
    reason="not_json",
    records=3,
    position=BytePosition(24),
    topic="orders",
    size=40,
    last_modified_ms=1,
    error="line 4",
    updated_ms=2,
)


def _documented(name: str) -> Any:
    found = re.findall(rf"^```json {name}\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"docs/commands.md has {len(found)} blocks for {name}"
    return json.loads(found[0])


def _status() -> Any:
    recent = RecentObject(
        bucket="uploads", key="k", state="done", reason=None, topic="t", records=1, bad=0, bytes=1, at_ms=1
    )
    reading = ReadingObject(
        slot=0, bucket="uploads", key="k", topic="t", records=1, bytes=1, others=0, at_ms=1
    )
    snapshot = Snapshot(name="uploads", version="1.0.0", recent=(recent,), reading=(reading,))
    return {"source": "service", **snapshot.as_dict()}


def _plan() -> Any:
    settings = configured({"aws.s3.bucket.name": "uploads", "aws.s3.prefix": "in/"})
    forecast = Preview(object_filters_of(settings, {}), now_ms=1)
    forecast.add([(SEEN, None)])
    restore = configured({"input.layout": "confluent", "file.name.template": None, "topic": None})
    assert restore.format.restore is not None
    names = ArchiveNames(LayoutName.CONFLUENT, NameOptions())
    archive = ArchivePreview(names, object_filter_of(restore), room=100_000)
    archive.add(S3Object(id=ObjectId("uploads", key, "e"), size=25, last_modified_ms=1) for key in KEYS)
    archive.look_into(_sample, lambda key: (0, 4, 4) if "00000.json" in key else (7, 9, 3))
    inventory = InventoryFacts(url="s3://inventories/manifest.json", manifest=None, problem=None)
    return plan_shape_of(settings, forecast, archive, [inventory], has_ledger=True)


def _sample(seen: S3Object, *_more: object) -> ArchiveSample:
    parts = (Exactness(Aspect.TIMESTAMP, Grade.ABSENT, ("it is not stored",)),)
    return ArchiveSample(url=seen.id.url, layout=LayoutName.CONFLUENT, exactness=parts, problem="x")


def _replay() -> Any:
    request = CommandRequest(
        settings=configured(),
        action="replay",
        chosen=[SelectedObject(object=SEEN, entry=ENTRY, records=3)],
        from_start=True,
        dry_run=False,
        yes=True,
        as_json=True,
        timeout=1.0,
    )
    return shape_of(request, None)


def _explain() -> Any:
    settings = configured({"topic": None, "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}"})
    return explained(settings.key_template().explain, settings, "orders-3-42").as_dict()


def _sink_plan() -> Any:
    settings = configured({"topic": None, "sqs.queue.url": None, "file.name.template": None, "topics": "t"})
    backlog = Backlog(topic="t", partition=3, begin=0, end=100, archived=42, pending=1)
    taken = TakeoverFacts(
        topic="t",
        partition=4,
        offset=10,
        group_offset=9,
        finished=("s3://b/.indexes/c/.locks/Topic(t)/4.lock",),
    )
    return sink_plan_shape_of(settings, [backlog], [taken], has_ledger=True)


def _sink_explain() -> Any:
    settings = configured({"topic": None, "sqs.queue.url": None, "file.name.template": None, "topics": "t"})
    return record_shape_of(RecordExplainer(settings).explained(sample_record(settings, '{"value":1}')))


ACTUAL = {
    "status": _status,
    "entry": lambda: entry_shape(CachedEntry(*SEEN.id.place, SEEN.id.etag, ENTRY.state, encode_entry(ENTRY))),
    "check": lambda: misconfigured("region", "It is elsewhere.", "Set it.").as_dict(),
    "explain": _explain,
    "lint": lambda: lint_shape_of(configured({"sqs.queue.url": None, "sqs.region": "eu-west-1"})),
    "options": lambda: [option_shape_of(ROTATE_RECORDS)],
    "translate": lambda: translation_shape_of(load_example()),
    "sinkexplain": _sink_explain,
    "sinkplan": _sink_plan,
    "setup": lambda: step_shape_of(Step(sentence="create it", apply=lambda: None), done=True),
    "plan": _plan,
    "replay": _replay,
}


def _outline(value: Any, name: str = "") -> Any:
    """The names of a shape and the kinds of its values; None fits every kind."""
    match value:
        case dict() if name in OPEN:
            return "object"
        case dict():
            return {key: _outline(one, key) for key, one in value.items()}
        case list() | tuple():
            return [_outline(one) for one in value[:1]]
        case _:
            return _KINDS[type(value)]


def _differences(documented: Any, actual: Any, at: str) -> list[str]:
    if documented is None or actual is None:
        return []
    if isinstance(documented, dict) and isinstance(actual, dict):
        found = [f"{at}.{name} is in one of both only" for name in documented.keys() ^ actual.keys()]
        for name in documented.keys() & actual.keys():
            found += _differences(documented[name], actual[name], f"{at}.{name}")
        return found
    if isinstance(documented, list) and isinstance(actual, list):
        return [
            one for pair in zip(documented, actual, strict=False) for one in _differences(*pair, f"{at}[]")
        ]
    return [] if documented == actual else [f"{at} is {documented} in the document, {actual} in fact"]


@pytest.mark.parametrize("name", ACTUAL)
def test_a_documented_shape_is_the_one_that_is_printed(name: str) -> None:
    """Every name at every depth, and whether it is a number, a text or a list."""
    actual = json.loads(json.dumps(ACTUAL[name]()))

    assert _differences(_outline(_documented(name)), _outline(actual), name) == []


def test_no_block_is_left_unchecked() -> None:
    """A new command's shape belongs into the table above."""
    assert set(re.findall(r"^```json ?(\w*)$", DOCUMENT.read_text(), re.MULTILINE)) == ACTUAL.keys()


def test_commands_answer_by_one_report() -> None:
    """Text and JSON come of one place; the schema, which has no text, is printed as it is."""
    printing = {
        f"{path.stem}: {ast.unparse(node)}"
        for path in sorted((ROOT / "ingest" / "cli").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node).startswith("typer.echo(json_text(")
    }
    assert printing == {"configuration_commands: typer.echo(json_text(json_schema(), indent=2))"}
