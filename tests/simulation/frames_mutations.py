"""Protections of Spark's source and its log, taken out one at a time.

`python -m tests.simulation.frames_mutations [NAME ..]` prints their table of `docs/simulation.md`.
"""

from typing import Final

from tests.simulation.mutations import Mutation, main

_LOG: Final = "spark/frames/discovery_log.py"
_ENTRIES: Final = "spark/frames/log_entries.py"
_STORE: Final = "spark/frames/log_store.py"
_STREAM: Final = "spark/frames/running_stream.py"
_DISCOVERY: Final = "spark/frames/new_objects.py"
_ADMISSION: Final = "spark/frames/admission.py"
_ENDPOINT: Final = "headrace/s3/client.py"

MUTATIONS: Final = {
    "a name is taken once": Mutation(
        "frames",
        "an entry is written where its name is free",
        _STORE,
        'Bucket=self._bucket, Key=self._key(name), Body=content, IfNoneMatch="*"',
        "Bucket=self._bucket, Key=self._key(name), Body=content",
        ((_STORE, "os.link(written, self._root / name)", "written.replace(self._root / name)"),),
    ),
    "who wrote the entry": Mutation(
        "frames",
        "an entry that is there already is one's own, or another query's",
        _LOG,
        "is_ours = found is not None and decode_entry(found, self._place(batch)).writer == self._writer",
        "is_ours = found is not None",
    ),
    "an answer that was lost": Mutation(
        "frames",
        "an entry whose write was not answered is one's own",
        _LOG,
        "is_ours = found is not None and decode_entry(found, self._place(batch)).writer == self._writer",
        "is_ours = False",
    ),
    "a name that is free again": Mutation(
        "frames",
        "an entry of a batch that has become part of a snapshot is refused",
        _LOG,
        "if is_ours and compacted_through(self._store.names(KNOWN)) >= batch:",
        "if False:",
    ),
    "durable first": Mutation(
        "frames",
        "a batch is in the log before Spark learns of it",
        _LOG,
        "is_ours = self._store.create(entry_name(batch), encode_entry(entry))",
        "is_ours = batch % 2 == 1 or self._store.create(entry_name(batch), encode_entry(entry))",
    ),
    "a batch ahead of the checkpoint": Mutation(
        "frames",
        "a batch that Spark does not know comes again as it was, and alone",
        _STREAM,
        "if batch < self._log.last:",
        "if False:",
    ),
    "what is known": Mutation(
        "frames",
        "a start knows the objects of entries and snapshots",
        _LOG,
        "self.known.add_sorted(identities)",
        "self.known.add_sorted([])",
    ),
    "in one batch": Mutation(
        "frames",
        "an object of a batch waits no longer",
        _DISCOVERY,
        "self._waiting.remove(admitted)",
        "pass",
    ),
    "snapshot first": Mutation(
        "frames",
        "entries are removed when their snapshot is there",
        _LOG,
        "            self._store.create(span.name, encode_snapshot(tables))\n",
        "            content = encode_snapshot(tables)\n"
        "            self._store.remove(names)\n"
        "            self._store.create(span.name, content)\n",
    ),
    "messages at the commit": Mutation(
        "frames",
        "a message is deleted when its batch is done",
        _STREAM,
        "        self._discovery.admit(batch, found)\n",
        "        self._discovery.admit(batch, found)\n        self._discovery.commit(batch)\n",
    ),
    "messages of what waits": Mutation(
        "frames",
        "a message waits for the objects that it names",
        _DISCOVERY,
        "self._messages.hold(message.id, owed, effects)",
        "self._messages.hold(message.id, set(), effects)",
    ),
    "messages that come twice": Mutation(
        "frames",
        "another message of an object of a batch under way waits as well",
        _DISCOVERY,
        "        if found.id in self._uncommitted:\n            return found.id\n",
        "        if found.id in self._uncommitted:\n            return None\n",
    ),
    "the content that was found": Mutation(
        "frames",
        "every read has If-Match, and looks at the ETag of its answer",
        _ENDPOINT,
        """, "IfMatch": f'"{self.etag}"'}""",
        "}",
        (
            (
                "headrace/s3/reader/resumable_get.py",
                "if etag != self._wanted.id.etag or total != self._wanted.size:",
                "if False:",
            ),
        ),
    ),
    "the version that was found": Mutation(
        "frames",
        "a read of a version names it",
        _ENDPOINT,
        'given["VersionId"] = self.version_id',
        "pass",
    ),
    "versions in snapshots": Mutation(
        "frames",
        "a snapshot keeps the versions of objects",
        _ENTRIES,
        "[one.version_id for _, one in rows],",
        "[None for _, one in rows],",
    ),
    "whole or not at all": Mutation(
        "frames",
        "an object that is gone in the middle fails its batch",
        "spark/frames/reading.py",
        "if has_rows or found in partition.shared or not",
        "if found in partition.shared or not",
    ),
    "one task or none": Mutation(
        "frames",
        "an object that several tasks read is left out by none of them",
        "spark/frames/reading.py",
        "if has_rows or found in partition.shared or not",
        "if has_rows or not",
    ),
    "one task that skips": Mutation(
        "frames",
        "with on.superseded=skip the splits of an object are one task",
        "spark/frames/batch_splits.py",
        "if settings.on_superseded is OnSuperseded.SKIP:",
        "if False:",
    ),
    "another bucket": Mutation(
        "frames",
        "a log is of one bucket and prefix",
        _LOG,
        "if (about.bucket, about.prefix) != (bucket, prefix):",
        "if False:",
    ),
    "another log": Mutation(
        "frames",
        "an offset names its log",
        _STREAM,
        'if offset.get("log") != log.about.id or not isinstance(batch, int):',
        "if not isinstance(batch, int):",
    ),
    "a log older than the checkpoint": Mutation(
        "frames",
        "a batch beyond the log's end is refused",
        _STREAM,
        "if batch > log.last:",
        "if False:",
    ),
    "another batch of its number": Mutation(
        "frames",
        "a batch that another query wrote into a restored log is refused",
        _STREAM,
        "if mark is not None and log.mark(batch) not in {None, mark}:",
        "if False:",
    ),
    "marks in snapshots": Mutation(
        "frames",
        "a snapshot keeps the marks of batches",
        _ENTRIES,
        "            marks += _marks(table)\n",
        "            marks += [(batch, None) for batch, _ in _marks(table)]\n",
    ),
    "the log's own files": Mutation(
        "frames",
        "what lies at state.path is not read",
        _DISCOVERY,
        "if self._given.is_state(found.id.key):",
        "if False:",
    ),
    "what is there now": Mutation(
        "frames",
        "Trigger.AvailableNow waits for the first full listing",
        _DISCOVERY,
        "            self._changed.wait_for(is_enough)\n",
        "            del is_enough\n",
    ),
    "turns over batches": Mutation(
        "frames",
        "after four uploads an object that only listings show has its turn, over batches",
        _ADMISSION,
        "self._fresh_in_turn = self._fresh_in_turn + 1 if is_fresh else 0",
        "self._fresh_in_turn = 0",
    ),
    "an end without a listing": Mutation(
        "frames",
        "a query that ends by itself ends after ten minutes without a listing",
        _DISCOVERY,
        "has_lasted = self._is_closing and self._refused_listings.lasted_ms >= _PATIENCE_MS",
        "has_lasted = False",
    ),
    "patience with listings": Mutation(
        "frames",
        "a query that ends by itself waits for a listing as long as S3 may be out of order",
        _DISCOVERY,
        "_PATIENCE_MS: Final = 600_000",
        "_PATIENCE_MS: Final = 60_000",
    ),
    "one batch or none": Mutation(
        "frames",
        "with Trigger.Once nothing is read where the listing does not end",
        _DISCOVERY,
        "is_read_first = not self._is_only_batch and self._waiting.has_any(wall_ms())",
        "is_read_first = self._waiting.has_any(wall_ms())",
    ),
    "messages without number": Mutation(
        "frames",
        "messages of batches under way leave room for others",
        _DISCOVERY,
        "self._listeners.park(message for message in held if self._messages.park(message))",
        "del held",
    ),
}


if __name__ == "__main__":
    main(MUTATIONS)
