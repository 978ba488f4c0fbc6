"""Protections taken out of the code, one at a time, and how many seeds it takes until a law is broken.

`python -m tests.simulation.mutations [NAME ..]` prints the table of `docs/simulation.md`.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).parents[2]
_COPIED: Final = ("headrace", "ingest", "listeners", "spark", "tests/simulation")
_SECONDS: Final = 3600


class Mutation(NamedTuple):
    """A protection: what it is, where its line is, and the line without it."""

    direction: str
    protects: str
    file: str
    line: str
    without: str
    also: tuple[tuple[str, str, str], ...] = ()
    """Where the same is protected once more: a file, its line, and the line without it."""

    @property
    def lines(self) -> tuple[tuple[str, str, str], ...]:
        """All of them: files, lines, and the lines without them."""
        return (self.file, self.line, self.without), *self.also


MUTATIONS: Final = {
    "offset holds for open objects": Mutation(
        "sink",
        "the committed offset is the lowest first offset of an open object",
        "spark/sink/partition_offsets.py",
        "offset = min(still_open, default=self.position)",
        "offset = self.position",
    ),
    "skip by group": Mutation(
        "sink",
        "a restart passes over what its group's entries cover",
        "spark/sink/partition_offsets.py",
        "if not len(offsets) or offsets[0] > done:",
        "if True:",
    ),
    "group in offset order": Mutation(
        "sink",
        "a group's objects are committed in the order of their offsets",
        "spark/sink/partition_offsets.py",
        "return [list(_prefix(group)) for group in groups.values()]",
        "return [[one for one in group if one.last_offset is not None] for group in groups.values()]",
    ),
    "dead letters listed": Mutation(
        "sink",
        "a checkpoint lists the records that have dead letters",
        "spark/sink/partition_offsets.py",
        "mask &= ~np.isin(offsets, np.fromiter(self._dead_letters, np.int64))",
        "pass",
    ),
    "a proof before another's object is replaced": Mutation(
        "sink",
        "at least once, a slot that was given up replaces nothing of its successor's",
        "headrace/s3/completion.py",
        "            claim.prove()\n",
        "",
    ),
    "a store without conditions": Mutation(
        "sink",
        "exactly once, a store that refuses conditions has objects completed without",
        "headrace/s3/upload_calls.py",
        "            self._rivals.note_unknown(error)\n",
        "            raise\n",
    ),
    "a log that was cut off": Mutation(
        "sink",
        "a log that has other records than were read is not read on, however far it has grown",
        "headrace/kafka/consumer/partition_reader.py",
        "if cut is not None and cut < position:",
        "if False:",
    ),
    "a log that was cut off before a start": Mutation(
        "sink",
        "a slot begins at an offset only if the log still has what was read before it",
        "spark/sink/record_feed.py",
        "{partition: epoch for partition, (_, epoch) in starts.items()},",
        "{},",
    ),
    "a log that was cut off below a marker": Mutation(
        "sink",
        "markers of transactions show the leader epoch of a log as records do",
        "headrace/kafka/consumer/partition_reader.py",
        "            self._read[partition] = end, passed.leader_epoch\n",
        "            pass\n",
    ),
    "a log that was cut off below an entry": Mutation(
        "sink",
        "what an entry covers is passed over only if it is of no later leader epoch",
        "spark/sink/partition_offsets.py",
        "if known != NO_EPOCH:",
        "if False:",
    ),
    "a log that was cut off below an entry after retention": Mutation(
        "sink",
        "the leader epoch of what entries cover outlives records that Kafka has deleted below it",
        "ingest/sink/starting.py",
        "    if checkpoint.leader_epoch == NO_EPOCH or checkpoint.highest < offset:\n",
        "    if True:\n",
    ),
    "a log that was cut off below an entry, and begins with a marker": Mutation(
        "sink",
        "a marker of a later leader epoch raises none of what entries cover above it",
        "spark/sink/partition_offsets.py",
        "if NO_EPOCH != self._known_epoch < epoch and self._was_read(position - 1):",
        "if False:",
    ),
    "the epoch of what is refused": Mutation(
        "sink",
        "a checkpoint has no epoch of records that were refused",
        "spark/sink/partition_offsets.py",
        "if changed is None or offset < changed]",
        "]",
    ),
    "a clock that was put back": Mutation(
        "sink",
        "an object that was opened by a clock that was put back since closes",
        "spark/sink/rotation.py",
        "    return opened_ms > now_ms + _STEP_BACK_MS\n",
        "    return False\n",
    ),
    "an operator's partition is not over": Mutation(
        "sink",
        "`--until-idle` does not end well while a partition waits for an operator",
        "ingest/service/idle.py",
        "            one.condition not in _OPERATORS\n            and one.end is not None\n",
        "            one.end is not None\n",
    ),
    "names are looked at": Mutation(
        "sink",
        "a store that refuses conditions is asked whether a name is free before an object is completed",
        "headrace/s3/upload_calls.py",
        "if self._is_free(bucket, upload.key):",
        "if upload.key:",
    ),
    "a later beginning of the same name": Mutation(
        "layouts",
        "at least once, a name that shows only the last offset keeps the object that begins first",
        "headrace/s3/completion.py",
        "        if there.offset >= ours.offset:",
        "        if True:",
    ),
    "pending in transaction": Mutation(
        "sink",
        "the transaction has an entry for each sealed object",
        "spark/sink/sink_transaction.py",
        "entries: list[SinkEntry] = [*pending, *checkpoints]",
        "entries: list[SinkEntry] = [*checkpoints]",
    ),
    "leader completes": Mutation(
        "sink",
        "the leader completes what a lost slot has left",
        "ingest/service/sink/completer.py",
        "        self._turns.add(_Left(sealed, self._first_pause))\n",
        "        del sealed\n",
    ),
    "who has the name is asked": Mutation(
        "sink",
        "a completion that was refused compares the id of the object of its name",
        "headrace/s3/completion.py",
        "if found == object_id:",
        "if False:",
        (("headrace/model/sink_entries.py", "if holder_id == sealed.id:", "if False:"),),
    ),
    "a commit in doubt is not aborted": Mutation(
        "sink",
        "what a commit without an answer came to is read from the ledger",
        "headrace/kafka/producer/slot_producers.py",
        "                if is_unanswered(error):\n                    if self.is_void():",
        "                if is_unanswered(error):\n"
        "                    self._commit_is_sent = False\n"
        "                    raise HeadraceError(str(error)) from error\n"
        "                    if self.is_void():",
    ),
    "checkpoints in the transaction": Mutation(
        "source",
        "an object's checkpoint is in the transaction of its rows",
        "headrace/kafka/producer/slot_producers.py",
        "self._queue(self._ledger_topic, value, key, 0, {})\n        seconds",
        "del key, value\n        seconds",
    ),
    "the content that was announced": Mutation(
        "source",
        "every read has If-Match",
        "headrace/s3/client.py",
        """, "IfMatch": f'"{self.etag}"'}""",
        "}",
    ),
    "the content that was announced, twice": Mutation(
        "source",
        "every read has If-Match, and the ETag of its answer is compared",
        "headrace/s3/client.py",
        """, "IfMatch": f'"{self.etag}"'}""",
        "}",
        (
            (
                "headrace/s3/reader/resumable_get.py",
                "if etag != self._wanted.id.etag or total != self._wanted.size:",
                "if total != self._wanted.size:",
            ),
        ),
    ),
    "fence before reading": Mutation(
        "source",
        "a lost slot is fenced before the ledger is believed",
        "headrace/kafka/driver_ledger.py",
        "            self._fence([slot_id(self._name, slot) for slot in slots], timeout)\n",
        "",
    ),
    "group commit": Mutation(
        "source",
        "a transaction begins with the leader's group commit",
        "headrace/kafka/producer/slot_producers.py",
        '        self._send_offsets(group_offsets(self._ledger_topic), group, "the group commit")\n',
        "        del group\n",
    ),
    "deleted before they were read": Mutation(
        "sink",
        "a slot says at once which records Kafka had deleted before it read them",
        "spark/sink/sink_run.py",
        "                self._report((event.topic, event.partition, first, event.end))\n",
        "                pass\n",
    ),
    "deleted before a start": Mutation(
        "sink",
        "a start says which records Kafka had deleted since the last one",
        "ingest/sink/starts.py",
        "            effects.lost_offsets.append(start.lost)\n",
        "            pass\n",
    ),
    "names are free": Mutation(
        "sink",
        "an object is completed only where its name is free",
        "headrace/s3/upload_calls.py",
        "partial(once, WHERE_FREE)",
        "partial(once, {})",
    ),
    "move what was read": Mutation(
        "source",
        "a post-action takes the content that was read, and no newer one",
        "headrace/s3/post_action_calls.py",
        'condition = {} if self._is_unconditional else {"IfMatch": f\'"{etag}"\'}',
        "condition = {}",
    ),
    "what is to stay is asked": Mutation(
        "source",
        "before each delete of a post-action it is asked whether the object is still to go",
        "ingest/service/apply_effects.py",
        "is_to_stay = self._is_paused or self._is_closed or self._owed.get(owed.id) is not owed",
        "is_to_stay = False",
    ),
    "actions that wait for a resume": Mutation(
        "source",
        "a pause holds post-actions",
        "ingest/service/lifecycle.py",
        "            else:\n                self._post_actions.pause()\n        if target is",
        "        if target is",
    ),
    "what is owed is withdrawn": Mutation(
        "source",
        "an action that was owed to an object is withdrawn where it is to be read again",
        "ingest/service/apply_effects.py",
        "            self._owed.pop(object_id, None)\n            self._is_well(object_id)\n",
        "            pass\n",
    ),
    "offsets all or none": Mutation(
        "sink",
        "offsets of several partitions are set together, or none of them",
        "ingest/sink/starts.py",
        "        for partition, offset in offsets.items():\n            refused",
        "        for partition, offset in list(offsets.items())[:1]:\n            refused",
    ),
    "the ledger before the group": Mutation(
        "sink",
        "a partition that the ledger knows continues there, whatever its group has",
        "ingest/sink/starting.py",
        "    if checkpoint is None:\n        return _first_start",
        "    if checkpoint is None or found.group_offset is not None:\n        return _first_start",
    ),
    "where another sink has come": Mutation(
        "sink",
        "a first start begins at the group's offset",
        "ingest/sink/starting.py",
        "    if found.group_offset is not None:\n        mark",
        "    if False:\n        mark",
    ),
    "listing above the bound": Mutation(
        "restore",
        "what waits for what only a listing can show has it listed, above `max.pending.objects` too",
        "ingest/source/catalogue/catalogue.py",
        "return self._wants_listing or self.states.is_stuck",
        "return self._wants_listing",
    ),
    "inexact objects stay": Mutation(
        "restore",
        "what was restored inexactly keeps its object",
        "ingest/source/catalogue/object_state.py",
        "action = self.post_action if end.is_owed and not pending.is_kept else None",
        "action = self.post_action if end.is_owed else None",
    ),
    "tombstones show keys": Mutation(
        "restore",
        "a tombstone object shows that its topic has keys",
        "ingest/source/catalogue/side_objects.py",
        'shown: set[str] = {"keys"} if place.is_tombstone else set()',
        "shown: set[str] = set()",
    ),
    "what is gone is recalled": Mutation(
        "restore",
        "after a restart the ledger shows which side objects a topic has",
        "ingest/source/catalogue/side_objects.py",
        "            self._recall(pending.object.id.bucket, place)\n",
        "",
    ),
    "owed tombstones": Mutation(
        "restore",
        "tombstones that a quarantined value owes are replayed with it",
        "ingest/source/catalogue/tombstones.py",
        "self._ends += filter(None, [self.owed.admit(pending)])",
        "pass",
    ),
    "a late start is none to wait for": Mutation(
        "sink",
        "a slot that is free is started where Spark is late with another",
        "ingest/service/sink/sink_slots.py",
        "SlotState.STARTING)} - {*self._absent}",
        "SlotState.STARTING)}",
    ),
    "versions whose HEADs are open": Mutation(
        "source",
        "a version of a key waits for the HEAD about an earlier one",
        "ingest/source/catalogue/catalogue.py",
        "if self.questions.may_wait(route, entry) and (held := self.questions.hold(s3_object, source)):",
        "if False and (held := self.questions.hold(s3_object, source)):",
    ),
    "versions that are listed": Mutation(
        "source",
        "a version that a listing shows waits for the HEAD about an earlier one",
        "ingest/source/catalogue/catalogue.py",
        "elif self.questions.hold_listed(s3_object, route, entry, now):",
        "elif False:",
    ),
    "ten minutes without a HEAD": Mutation(
        "source",
        "what a listing shows waits for no longer than ten minutes for the HEAD about an earlier version",
        "ingest/source/catalogue/deduplication.py",
        "return steady_ms - question.asked_ms >= _LISTED_WAITS_MS",
        "return False",
    ),
    "listed versions of a partition": Mutation(
        "source",
        "with ordering=partition what a listing shows does not wait for HEADs",
        "ingest/source/catalogue/deduplication.py",
        "is_awaited |= is_listed and self._is_ordered and route.partition is not None",
        "pass",
    ),
    "versions that have a place": Mutation(
        "source",
        "a version whose name has an offset waits for HEADs in its place, where others of its partition wait",
        "ingest/source/catalogue/deduplication.py",
        "route.archive is not None or route.start_offset is not None",
        "route.archive is not None",
    ),
    "the first start that could see a key": Mutation(
        "source",
        "`native.start.key` of a later prefix counts for no key that an earlier start could see",
        "ingest/source/catalogue/listing_merge.py",
        "(*reversed(self.earlier), self) if key",
        "(self, *self.earlier) if key",
    ),
    "first starts of earlier prefixes": Mutation(
        "source",
        "the first start of another prefix is remembered next to those before it",
        "ingest/source/first_starts.py",
        "begun = replace(now, prefix=prefix, moved_to=before.moved_to, earlier=tuple(earlier))",
        "begun = replace(now, prefix=prefix, moved_to=before.moved_to)",
    ),
    "listings below a later start key": Mutation(
        "source",
        "listings begin below a start key that does not count for all keys before it",
        "ingest/source/catalogue/listing_merge.py",
        "return None if self.earlier else self.start_key",
        "return self.start_key",
    ),
    "another bucket": Mutation(
        "source",
        "what is remembered of a first start belongs to its bucket",
        "ingest/service/source_leader.py",
        "found = first_start_of(ledger.cache, bucket)\n",
        "found = first_start_of(ledger.cache, bucket)\n"
        "        for other in other_buckets(ledger.cache, bucket) if found is None else ():\n"
        "            found = first_start_of(ledger.cache, other)\n",
    ),
    "buckets apart": Mutation(
        "source",
        "a listing is compared with the entries of its own bucket",
        "ingest/source/catalogue/catalogue.py",
        "compared_with_ledger(page, states.ledger, expiry)",
        "compared_with_ledger(replace(page, bucket=min(self._filters)), states.ledger, expiry)",
    ),
    "late starts": Mutation(
        "source",
        "tasks that Spark does not start are a problem",
        "ingest/service/slot_states.py",
        "if not self._up and began is not None and self._is_late(began):",
        "if began is not None and began < 0:",
    ),
    "messages that come again": Mutation(
        "source",
        "--until-idle ends beside messages that are left on the queue",
        "ingest/service/event_loop.py",
        "return message.id not in self._left",
        "return True",
    ),
    "types of another object": Mutation(
        "sink",
        "a value of another type begins a new object",
        "spark/sink/open_group.py",
        "None if fit.rows == len(values) else NewObject())",
        'None if fit.rows == len(values) else Refused("schema_conflict", "another type"))',
    ),
    "a record is counted once": Mutation(
        "source",
        "a committed record is counted once",
        "ingest/service/statistics.py",
        "self._metrics.records.labels(topic).inc(count)",
        "self._metrics.records.labels(topic).inc(2 * count)",
    ),
    "counts of lost slots": Mutation(
        "source",
        "what a lost slot has committed is counted when the ledger shows it",
        "ingest/service/statistics.py",
        "self._metrics.records.labels(one.topic).inc(one.records)",
        "pass",
    ),
    "a sink's record is counted once": Mutation(
        "sink",
        "a record of a sink is counted once",
        "ingest/service/sink/sink_statistics.py",
        "self._metrics.sink_records.labels(topic).inc(count)",
        "self._metrics.sink_records.labels(topic).inc(2 * count)",
    ),
    "counts of a sink's lost slots": Mutation(
        "sink",
        "what a sink's lost slot has committed is counted when the ledger shows it",
        "ingest/service/sink/sink_statistics.py",
        "self._metrics.sink_records.labels(one.topic).inc(one.records)",
        "pass",
    ),
    "states of these buckets": Mutation(
        "source",
        "/status counts the objects of the connector's own buckets",
        "ingest/service/source_leader.py",
        "ledger=running.ledger.cache.counts_in(self._settings.buckets),",
        "ledger=running.ledger.cache.counts(),",
    ),
    "what plan leaves out": Mutation(
        "source",
        "plan knows what the first start has left to the past",
        "ingest/source/first_starts.py",
        "found = None if cache is None else first_start_of(cache, settings.s3.bucket)",
        "return Baseline()\n    found = None",
    ),
    "status of these buckets": Mutation(
        "source",
        "status counts the objects of the connector's own buckets",
        "ingest/checks/probes/status_reader.py",
        "counts = {} if cache is None else cache.counts_in(buckets)",
        "counts = {} if cache is None else cache.counts()",
    ),
    "pending objects shown": Mutation(
        "sink",
        "/status shows the objects that wait to be completed",
        "ingest/sink/partitions.py",
        "pending_objects=len(pending),",
        "pending_objects=0,",
    ),
    "records of a transaction": Mutation(
        "source",
        "a transaction has at most transaction.boundary.records",
        "spark/source/transaction.py",
        "counted >= self._limit or time",
        "time",
        (("spark/source/transaction.py", "return max(1, self._limit - self.sent)", "return 10_000"),),
    ),
    "objects of a batch": Mutation(
        "source",
        "a batch has at most job.max.objects",
        "ingest/source/planner/limits.py",
        "return self.taken < self.objects and self.share_bytes > 0",
        "return self.share_bytes > 0",
    ),
    "a stop after rows alone": Mutation(
        "source",
        "a batch ends after job.max.seconds in an object whose rows are filtered out, too",
        "spark/source/pipeline.py",
        "return rows.after != self._start and now >= self._at",
        "return len(rows) > 0 and rows.after != self._start and now >= self._at",
    ),
    "open objects": Mutation(
        "sink",
        "a slot has at most max.open.files open",
        "spark/sink/record_feed.py",
        "excess = _open_count(works) - limit",
        "excess = 0 * limit",
    ),
    "messages held": Mutation(
        "source",
        "a receive asks for no more messages than may be held",
        "listeners/visibility.py",
        "granted = max(0, min(most, self._limit - self._counted - self._reserved))",
        "granted = most",
    ),
    "records of an object": Mutation(
        "sink",
        "an object closes at exactly rotate.records",
        "spark/sink/rotation.py",
        "if self._settings.records and room <= rows:",
        "if self._settings.records < 0:",
    ),
    "fencing": Mutation(
        "source",
        "who takes the lead fences all slots ever used",
        "headrace/kafka/driver_ledger.py",
        "fenced = beside.submit(self._fence, ids, timeout)",
        "fenced = beside.submit(lambda *_: None, ids, timeout)",
    ),
    "names of the first record": Mutation(
        "layouts",
        "an object's name shows the offset of its first record",
        "spark/sink/object_keys.py",
        "NameField.START_OFFSET: facts.first_offset,",
        "NameField.START_OFFSET: facts.batch_offset,",
    ),
    "values after their keys": Mutation(
        "layouts",
        "values appear after what is next to them",
        "spark/sink/open_group.py",
        "after=uploads[-1][1] if uploads else None,",
        "after=None,",
    ),
    "tombstones of their own": Mutation(
        "layouts",
        "keys of tombstones are objects of their own, and no rows of values",
        "spark/sink/object_shape.py",
        "template = sink.output.sidecars.tombstone_template",
        "template = None",
    ),
    "keys that are bytes": Mutation(
        "layouts",
        "a member of an envelope that is base64 is marked so",
        "headrace/vendors/lenses/written_values.py",
        "return _mark(name, column) if field in self._fields else []",
        "return []",
    ),
    "keys of csv": Mutation(
        "layouts",
        "keys in csv are base64",
        "headrace/vendors/aiven/rows.py",
        "return _base64(records.key)",
        'return filled(records.key.texts(), b"")',
    ),
    "rows of a side object": Mutation(
        "archives",
        "keys and headers are joined from the row on where reading continues",
        "headrace/vendors/confluent/join.py",
        "        side.skip(skip)\n",
        "        side.skip(0)\n",
    ),
    "a row that decides": Mutation(
        "archives",
        "what rows are is decided by the first that is JSON, whatever is before it",
        "headrace/conversion/archive_heads.py",
        "        if is_whole_json(row):\n            if is_empty_certain",
        "        if True:\n            if is_empty_certain",
    ),
    "nulls of no schema": Mutation(
        "sink",
        "nulls are of no schema's group, whatever was fetched with them",
        "spark/sink/grouping.py",
        "if name is None or not self._names.has_own_nulls:",
        "if True:",
    ),
    "nulls of one schema, twice": Mutation(
        "sink",
        "nulls of one group are of one schema, whatever each was fetched with, and close no object",
        "spark/sink/object_shape.py",
        "if connect is None or connect.name is None or not value.nulls().all():",
        "if True:",
        (
            (
                "spark/sink/partition_objects.py",
                "if value.schema.connect is None:",
                "if True:",
            ),
        ),
    ),
    "nulls that join": Mutation(
        "sink",
        "a null closes no object of values whose schema has no name",
        "spark/sink/partition_objects.py",
        "if value.schema.connect is None:",
        "if True:",
    ),
    "nulls that are read again": Mutation(
        "sink",
        "a tombstone that is a bad record once it is read again with a value is known by its own group",
        "spark/sink/partition_work.py",
        "if not faults or not is_own or not offsets.is_replaying or offsets.earlier:",
        "if True:",
    ),
    "nulls that were written before": Mutation(
        "sink",
        "a null that was read before it was to be reported stops nothing, and has no dead letter",
        "spark/sink/partition_work.py",
        "return is_null and self._offsets.refuse_changed([fault.offset]) is not None",
        "return False and is_null",
    ),
    "zeros prove nothing": Mutation(
        "restore",
        "names with zeros wait for the listing of their partition as those without do",
        "ingest/source/planner/ordering.py",
        "begin, end = _digits_of(pending)\n",
        'begin, end = _digits_of(pending)\n        if pending.object.id.key[begin:begin + 2] == "00":\n'
        "            return False\n",
    ),
    "events wait for the listing": Mutation(
        "restore",
        "what an event tells of waits for lower offsets that the first listing shows later",
        "ingest/source/planner/ordering.py",
        "        if self._listed is None or self._listed[pending.object.id.bucket].is_complete:\n"
        "            return False\n",
        "        if pending.is_fresh or self._listed is None:\n            return False\n",
    ),
    "events of one digit wait as well": Mutation(
        "restore",
        "an event of an offset of one digit waits for those below it",
        "ingest/source/planner/ordering.py",
        "if is_first or not pending.is_fresh or self._listed[pending.object.id.bucket].has_passed(key):",
        "if True:",
    ),
    "a full table is said": Mutation(
        "restore",
        "what waits for room next to an object that fails is one of the problems",
        "ingest/source/planner/limits.py",
        "if since_ms is None or self._now_ms - since_ms < _LONG_MS or self._failed is None:",
        "if True:",
    ),
    "values that are no number of JSON": Mutation(
        "restore",
        "a value that is NaN or infinite by itself is a bad record, and no tombstone",
        "headrace/formats/row_members.py",
        "if nulls.any() and not isinstance(kind, pa.BaseExtensionType):",
        "if False:",
    ),
    "rows without a value": Mutation(
        "restore",
        "a row whose object left values out is a bad record, and no tombstone",
        "headrace/vendors/aiven/rows.py",
        "refuse_without_value(np.ones(len(structs), bool) if value is None else None, faults)",
        "refuse_without_value(None, faults)",
    ),
    "hidden names are said, twice": Mutation(
        "sink",
        "an object whose name S3 does not tell of waits, and is one of the problems",
        "ingest/service/sink/completer.py",
        'if left.times > TIMES_GONE and (why := _WAITS.get(found.state, "")):',
        "if False:",
        (
            (
                "ingest/sink/partitions.py",
                "counts.oldest_pending_ms > max_pending_age_ms and oldest:",
                "oldest.sealed_ms < 0:",
            ),
        ),
    ),
    "hidden names are no free ones": Mutation(
        "sink",
        "an object whose name may be taken, as a 403 does not tell, is not given up",
        "headrace/s3/upload_calls.py",
        "was none about credentials.\n            return Completion(CompletionState.UNPROVEN)",
        "was none about credentials.\n            return Completion(CompletionState.COMPLETED)",
    ),
    "nulls that are archived": Mutation(
        "sink",
        "such a tombstone is no bad record where an object has it",
        "spark/sink/partition_work.py",
        "return self._offsets.unarchived(groups[fault.offset], offset) is not None",
        "return False",
    ),
    "what is written is owed nothing": Mutation(
        "archives",
        "while an object's replay is written, no listing owes its action again",
        "ingest/source/catalogue/object_state.py",
        "entry.action != self.post_action or object_id in self.unwritten:",
        "entry.action != self.post_action:",
    ),
    "what a filter means": Mutation(
        "sink",
        "a filter drops what its predicate means, and nothing else",
        "headrace/formats/transforms/record_chain.py",
        "return [rest, *_made(step.transform, run.take(np.flatnonzero(chosen)), refused, now_ms)]",
        "return [run.take(np.flatnonzero(chosen)), *_made(step.transform, rest, refused, now_ms)]",
    ),
    "topics that appear later": Mutation(
        "sink",
        "with `latest` a topic that appears while a process leads begins at its first record",
        "ingest/sink/starts.py",
        "earliest = topic in self._known_topics or not was_there",
        "earliest = topic in self._known_topics",
    ),
    "partitions that are added": Mutation(
        "sink",
        "with `latest` a partition that a known topic has got begins at its first record",
        "ingest/sink/starts.py",
        "        earliest = topic in self._known_topics or",
        "        earliest =",
    ),
    "keys that have expired": Mutation(
        "source",
        "no object is given up, as keys have expired",
        "headrace/aws/aws_errors.py",
        '            "ExpiredToken",\n',
        "",
    ),
    "where a body broke off": Mutation(
        "source",
        "a read whose body broke off continues there",
        "headrace/s3/reader/resumable_get.py",
        "self._calls.attempted(partial(self._begin, at, end))",
        "self._calls.attempted(partial(self._begin, begin, end))",
    ),
    "pages after the first": Mutation(
        "source",
        "a listing has all pages",
        "headrace/aws/store_answers.py",
        '    if not page.get("IsTruncated"):\n',
        "    if page:\n",
    ),
    "what a page has passed": Mutation(
        "restore",
        "a page of a listing has passed no key after its last one",
        "listeners/listing.py",
        "through_key=None if token is None else answer.last_key,",
        "through_key=None,",
    ),
    "offsets order objects": Mutation(
        "archives",
        "objects of a partition come in the order of the offsets in their names",
        "ingest/source/planner/ordering.py",
        "return (_NO_OFFSET if offset is None else offset), pending.route.timestamp_ms or 0",
        "return (_NO_OFFSET if offset is None else 0), pending.route.timestamp_ms or 0",
    ),
    "headers that tombstones show": Mutation(
        "archives",
        "headers of tombstones show that their topic has headers",
        "ingest/source/catalogue/side_objects.py",
        "            shown.add(place.side)\n",
        '            shown.add("keys" if place.is_tombstone else place.side)\n',
    ),
}


def seeds_until_red(mutation: Mutation, *, seeds: int) -> tuple[int, str] | None:
    """How many seeds it took without the protection, and the first sentence; None where none was enough."""
    with tempfile.TemporaryDirectory(prefix="headrace-mutation-") as folder:
        root = Path(folder)
        for name in _COPIED:
            shutil.copytree(_ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name, line, without in mutation.lines:
            text = (root / name).read_text()
            assert text.count(line) == 1, f"{name} has not once: {line!r}"
            (root / name).write_text(text.replace(line, without))
        command = [sys.executable, "-m", "tests.simulation", "--direction", mutation.direction]
        command += ["--seeds", f"0:{seeds}", "--first", "--no-shrink"]
        done = subprocess.run(  # this project's own
            command, cwd=root, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    if done.returncode == 0:
        return None
    assert done.returncode == 1, done.stderr
    first = done.stdout.splitlines()[0]
    seed = int(first.split("seed ")[1].split(":")[0])
    return seed + 1, first.split(": ", 1)[1]


def main(mutations: Mapping[str, Mutation] = MUTATIONS) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=200)
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in mutations]:
        parser.error(
            f"{', '.join(map(repr, unknown))}: no protection has this name; there are {', '.join(mutations)}"
        )
    for name in given.names or mutations:
        found = seeds_until_red(mutations[name], seeds=given.seeds)
        said = f"none of {given.seeds}" if found is None else f"{found[0]} | {found[1][:110]}"
        sys.stdout.write(f"| {name} | {mutations[name].protects} | {said} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
