"""The service: one thread that owns the catalogue and the planner, and is told by all others.

    events         what reaches the inbox from our own threads (the listeners' and lanes' come as they are)
    loop           `Service`: takes one event after the other; receive, plan, run, settle
    slots          which slots are started, ready, busy, or being recovered
    ledger_writes  the driver's own records, committed by a thread beside
    recovery       void, fence, read, for slots that did not report cleanly
    idle           when `--until-idle` is over
    snapshot       what `/status` and the metrics show
    lead           from the lock on the state folder to the lead, and the ledger read to its end
    start          broker, bucket and topics, checked before anything is promised

Nothing outside ends it once it runs: what fails is tried again, and said.
"""
