"""A process that leads, is paused, and tries to go on: run as `python -m tests.headrace.kafka.zombie`.

Lines on standard output: `leads <metadata in hex>`; after a line on standard input what its next ledger
write comes to, `wrote` or the name of the error; and `lost <reason>` when the lead is lost. With a folder it
is the static member of that `state.dir`.
"""

import sys
import threading
from pathlib import Path

from headrace.kafka.cache_files import claim_cache_directory
from headrace.kafka.leadership import Leadership
from headrace.kafka.ledger_writer import LedgerWriter
from headrace.model.errors import HeadraceError
from headrace.model.ledger_entry import LedgerEntry, State
from headrace.model.objects import ObjectId


def main(bootstrap: str, name: str, topic: str, session_timeout_ms: str, state_dir: str = "") -> None:
    """Lead, wait for a line, write."""
    properties = {"bootstrap.servers": bootstrap}
    home = claim_cache_directory(Path(state_dir), name) if state_dir else None
    lead = Leadership(
        properties,
        name=name,
        ledger_topic=topic,
        session_timeout_ms=int(session_timeout_ms),
        instance_id=None if home is None else home.instance_id(),
        on_lost=lambda reason: print(f"lost {reason}", flush=True),  # noqa: T201 - how it is heard
    )
    lead.join()
    assert lead.wait_for_lead(60, threading.Event())
    metadata = lead.metadata()
    # What it captured when it led, as a batch carries it: the process does not look again.
    writer = LedgerWriter(
        properties, name=name, ledger_topic=topic, metadata=lambda: metadata, still_leads=lambda: False
    )
    writer.initialise(60)
    print("leads", metadata.hex(), flush=True)  # noqa: T201 - as above
    sys.stdin.readline()
    try:
        writer.commit([(ObjectId("bucket", "zombie", "etag"), LedgerEntry(state=State.DONE))], timeout=2)
    except HeadraceError as error:
        print(type(error).__name__, flush=True)  # noqa: T201 - as above
    else:
        print("wrote", flush=True)  # noqa: T201 - as above
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
