"""What `headrace status` shows of a sink."""

from collections.abc import Iterator

from headrace.model.sanitize import printable
from headrace.model.text_formatting import bytes_text, counted
from ingest.checks.probes.status_reader import Shape


def sink_lines(shape: Shape) -> Iterator[str]:
    """Lines for people: sums first, then a line for each partition."""
    sink = shape["sink"]
    if shape["source"] == "service":
        yield from _live_lines(shape)
    yield f"sealed    {counted(sink['pending_objects'], 'object')} not visible yet"
    if sink["quarantined_objects"]:
        lost = counted(sink["quarantined_objects"], "object")
        yield f"never     {lost} quarantined: see the log, and docs/sink.md"
    if unproven := sink.get("unproven_objects_total"):
        yield f"unproven  {counted(unproven, 'object')} neither uploading nor there: see the log"
    # A service of a release before this one does not say it.
    if missing := sink.get("missing_topics"):
        names = ", ".join(map(printable, missing))
        yield f"missing   {counted(len(missing), 'topic')} not there: {names}"
    for one in sink["partitions"]:
        end = "" if one["end"] is None else f" of {one['end']:,}, {one['lag']:,} behind"
        slot = "" if one["slot"] is None else f", slot {one['slot']}"
        at = "not begun" if one["offset"] is None else f"at {one['offset']:,}"
        yield f"  {printable(one['topic'])}-{one['partition']}  {one['state']}, {at}{end}{slot}"


def _live_lines(shape: Shape) -> Iterator[str]:
    """What only a running sink knows."""
    sink = shape["sink"]
    yield f"lag       {counted(sink['lag'], 'offset')} not archived yet"
    memory, disk = bytes_text(sink["buffered_bytes"]), bytes_text(sink["spilled_bytes"])
    yield (
        f"open      {counted(sink['open_objects'], 'object')}, {memory} in memory, {disk} on disk, "
        f"the oldest for {sink['oldest_open_seconds']:,.0f} s"
    )
    yield (
        f"archived  {counted(shape['records_total'], 'record')} in "
        f"{counted(sink['objects_total'], 'object')}, {bytes_text(sink['bytes_total'])} since the start"
    )
    rates = f"{shape['records_per_second']:,.0f} records/s, {bytes_text(shape['bytes_per_second'])}/s"
    yield f"rates     {rates}"
