"""Protections of connectors that take turns at cores, taken out one at a time.

`python -m tests.simulation.turns_mutations [NAME ..]` prints their table of `docs/simulation.md`.
"""

from typing import Final

from tests.simulation.mutations import Mutation, main

_WORK: Final = "ingest/sink/dealing.py"
_READER: Final = "headrace/s3/reader/s3_source.py"

MUTATIONS: Final = {
    "openings are carried": Mutation(
        "turns",
        "an object that is opened again in another turn is as old as it was",
        "spark/sink/names_and_openings.py",
        "        return min(first.opened_ms, now_ms), first.age_from_ms\n",
        "        return now_ms, age_from_ms\n",
    ),
    "what is due is work": Mutation(
        "turns",
        "a tail that was read has a core when the first of its objects is to close",
        _WORK,
        " or (left.due_ms is not None and left.due_ms <= now_ms)",
        "",
    ),
    "a tail that rests": Mutation(
        "turns",
        "a tail that was read asks for no core before its time",
        _WORK,
        "    left = left_open(state)\n    if left is None:\n        return _is_readable",
        "    left = left_open(state)\n    if True:\n        return _is_readable",
    ),
    "an open transaction": Mutation(
        "turns",
        "what waits for an open transaction asks for no core",
        _WORK,
        "    if held is None or found.stable_end is None or position < held.offset:\n",
        "    if True:\n",
    ),
    "an open transaction that is over": Mutation(
        "turns",
        "what waited for a transaction is read once that is over",
        _WORK,
        "    return found.stable_end > max(end, position)\n",
        "    return False\n",
    ),
    "an open transaction is said": Mutation(
        "turns",
        "a partition at an open transaction is one of the problems while no slot waits there",
        "ingest/sink/archive.py",
        "        return (*found, *held_sentences(self._states, now_ms))\n",
        "        return found\n",
    ),
    "recalled slots end": Mutation(
        "turns",
        "a sink's slot gives its core to another connector that waits",
        "ingest/service/sink/sink_slots.py",
        "            if not left or (left == before and now - since > _STUCK_SECONDS):\n",
        "            if False:\n",
    ),
    "an end waits not for ever": Mutation(
        "turns",
        "an end at which S3 refuses gives the core back after some time",
        "spark/sink/slot_uploads.py",
        "        return why if now - self._since >= self._seconds else None\n",
        "        return None\n",
    ),
    "what was read of a deleted topic": Mutation(
        "turns",
        "an end gives up nothing that was read of a deleted topic",
        "spark/sink/sink_run.py",
        "            why = None if self._holds_the_last() else patience.refusal()\n",
        "            why = patience.refusal()\n",
    ),
    "turns of a source end": Mutation(
        "turns",
        "a source's slot gives its core to another connector that waits",
        "ingest/service/slot_supervisor.py",
        "            if self._is_turn_over(slot, since):\n",
        "            if False:\n",
    ),
    "who waits longest": Mutation(
        "turns",
        "a connector that is late for a core is not passed by others for ever",
        "spark/slots/slot_pool.py",
        "                is_held=self._sharing is not None and self._sharing.has_late,\n",
        "                is_held=False,\n",
    ),
    "what is read next": Mutation(
        "turns",
        "a limit on reading is spent on what is read next",
        _READER,
        "min(WINDOW_BYTES, pace.bytes_ahead)",
        "WINDOW_BYTES",
        ((_READER, "if closed is not None and closed.is_set():", "if False:"),),
    ),
    "an earlier life": Mutation(
        "turns",
        "what was left open of a topic says nothing of one that is made again",
        _WORK,
        "    if left is None or checkpoint is None or left.topic_id != checkpoint.topic_id:\n",
        "    if left is None or checkpoint is None:\n",
    ),
}


if __name__ == "__main__":
    main(MUTATIONS)
