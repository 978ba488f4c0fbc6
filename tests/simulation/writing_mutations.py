"""Protections of Spark's writer, taken out one at a time.

`python -m tests.simulation.writing_mutations [NAME ..]` prints their table of `docs/simulation.md`.
"""

from typing import Final

from tests.simulation.mutations import Mutation, main

_WRITING: Final = "spark/frames/writing.py"
_COMPLETION: Final = "spark/frames/frame_completion.py"
_BATCHES: Final = "spark/frames/written_batches.py"
_STORE: Final = "spark/frames/log_store.py"
_TASK: Final = "spark/sink/frame_writer.py"

MUTATIONS: Final = {
    "named once": Mutation(
        "writing",
        "a batch is named where its name is free",
        _STORE,
        'Bucket=self._bucket, Key=self._key(name), Body=content, IfNoneMatch="*"',
        "Bucket=self._bucket, Key=self._key(name), Body=content",
        ((_STORE, "os.link(written, self._root / name)", "written.replace(self._root / name)"),),
    ),
    "what was named first": Mutation(
        "writing",
        "a batch that comes again completes what its first commit has named",
        _BATCHES,
        "        self._refuse_others(number, found, batch)\n        return found\n",
        "        self._refuse_others(number, found, batch)\n        return batch\n",
    ),
    "named before completed": Mutation(
        "writing",
        "a batch is named before any of its objects is completed",
        _WRITING,
        "        try:\n            own = batches.name(",
        "        complete(CompleterOfBatch(self._settings.sink, (), batches, batchId), found[:1])\n"
        "        try:\n            own = batches.name(",
    ),
    "completed at the commit": Mutation(
        "writing",
        "a task completes nothing",
        _TASK,
        "            is_direct=is_direct,\n",
        "            is_direct=True,\n",
    ),
    "what is to be overwritten": Mutation(
        "writing",
        "a frame of the mode `overwrite` replaces what has its names",
        _COMPLETION,
        "overwrites = sealed.overwrites or self._overwrites\n",
        "overwrites = sealed.overwrites\n",
    ),
    "what is not to be overwritten": Mutation(
        "writing",
        "a frame of another mode replaces nothing",
        _COMPLETION,
        "overwrites = sealed.overwrites or self._overwrites\n",
        "overwrites = True\n",
    ),
    "rows that a batch did not have": Mutation(
        "writing",
        "a batch that comes again with other rows is refused",
        _BATCHES,
        "        if not others:\n            return\n",
        "        del others\n        return\n",
    ),
    "the last rows that a batch had": Mutation(
        "writing",
        "a batch that comes again without the last of its rows is refused",
        _BATCHES,
        "return before.first <= now.first and before.last == now.last",
        "return before.first <= now.first and before.last >= now.last",
    ),
    "partitions that a batch had": Mutation(
        "writing",
        "a batch that comes again without a partition is refused",
        _BATCHES,
        "    if before is None or now is None:\n        return False\n",
        "    if before is None or now is None:\n        return now is None\n",
    ),
    "later batches": Mutation(
        "writing",
        "a batch whose name is free before those of later ones is refused",
        _BATCHES,
        "        if later and _number(later[-1]) - number >= by:\n",
        "        if False:\n",
    ),
    "begins where another began": Mutation(
        "writing",
        "a batch that begins with the offset of a batch of another number is refused",
        _BATCHES,
        "            self._refuse_again(number, before, batch)\n",
        "",
    ),
    "complete before it is refused": Mutation(
        "writing",
        "what the last file has is completed before a query is refused",
        _WRITING,
        "            if refused.last is not None:\n",
        "            if False:\n",
    ),
    "ends of all partitions": Mutation(
        "writing",
        "a file has the ends of the batches before as well",
        _BATCHES,
        "ends=_ends(before, batch))",
        "ends=_ends(None, batch))",
    ),
    "not given up at an abort": Mutation(
        "writing",
        "what a commit may have named is not given up",
        _WRITING,
        "        if named is not None:\n            self._give_up_others(messages, named)\n",
        "        self._give_up_others(messages, named or WrittenBatch(()))\n",
    ),
    "what is named is kept": Mutation(
        "writing",
        "uploads that the batch has named are not given up",
        _WRITING,
        "        kept = {each.id for each in named.objects}\n",
        "        kept = {each.id for each in named.objects[:0]}\n",
    ),
    "open from the first": Mutation(
        "writing",
        "what a batch names is noted as open before it is named",
        _WRITING,
        "        batches.note_open(batchId, [one.id for one in found])\n",
        "",
    ),
    "taken away": Mutation(
        "writing",
        "an object that a consumer has taken away was complete",
        _COMPLETION,
        "        if age.may_be_expired:\n",
        "        if age.upload_ms is not None:\n",
    ),
    "ended by the bucket": Mutation(
        "writing",
        "an upload that the bucket may have ended is not taken for complete",
        _COMPLETION,
        "        if age.may_be_expired:\n",
        "        if False:\n",
    ),
    "ended by another program": Mutation(
        "writing",
        "an upload that is gone at the first commit was not complete",
        _COMPLETION,
        "        return sealed.id in self._sent\n",
        "        return False\n",
    ),
    "what is left stays noted": Mutation(
        "writing",
        "a commit that comes again does not take for complete what the first one has found ended",
        _BATCHES,
        "        still = left & self.noted_open(number) if left else left\n",
        "        still = left - left\n",
    ),
    "the rule of its own bucket": Mutation(
        "writing",
        "the rule of the bucket in which an object is decides",
        "headrace/s3/s3_calls.py",
        "_upload_rules(replace(s3, bucket=bucket), refused)",
        "_upload_rules(s3, refused)",
    ),
    "names are free": Mutation(
        "writing",
        "an object is completed only where its name is free",
        "headrace/s3/upload_calls.py",
        "partial(once, WHERE_FREE)",
        "partial(once, {})",
    ),
    "who has the name is asked": Mutation(
        "writing",
        "a completion that was refused compares the id of the object of its name",
        "headrace/s3/completion.py",
        "if found == object_id:",
        "if False:",
    ),
    "sorted by offset": Mutation(
        "writing",
        "a task of a stream sorts its rows",
        "spark/sink/frame_records.py",
        "    if bool((order[1:] > order[:-1]).all()):\n",
        "    if order is not None:\n",
    ),
    "out of order": Mutation(
        "writing",
        "rows of a frame that do not come in order are refused",
        "spark/sink/frame_records.py",
        "wrong = np.flatnonzero(records.offsets <= before)",
        "wrong = np.flatnonzero(records.offsets < 0)",
    ),
    "the last of each key": Mutation(
        "writing",
        "of a name of keys the last object of a batch stays",
        _BATCHES,
        "ordered = sorted(objects, key=lambda one: (one.topic, one.partition, one.first_offset))",
        "ordered = sorted(objects, key=lambda one: (one.topic, one.partition, -one.first_offset))",
    ),
    "what is open is closed": Mutation(
        "writing",
        "what is open at the end of a task is written",
        _TASK,
        "rotation=replace(sink.rotation, on_stop=True)",
        "rotation=replace(sink.rotation, on_stop=sink.rotation.on_stop)",
        ((_TASK, "        work.objects.close_all()\n", ""),),
    ),
    "patience": Mutation(
        "writing",
        "a task that is refused for a minute fails in a sentence",
        _TASK,
        "if now - self._refused_since > PATIENCE_SECONDS:",
        "if now < self._refused_since:",
    ),
    "files that are forgotten": Mutation(
        "writing",
        "so many batches are remembered, and no more",
        _BATCHES,
        "        if number >= KEPT:\n",
        "        if number < 0:\n",
    ),
}


if __name__ == "__main__":
    main(MUTATIONS)
