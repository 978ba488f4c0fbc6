"""The service: one thread that owns the catalogue and the planner, and is told by all others.

    events         what reaches the inbox from our own threads (the listeners' and lanes' come as they are)
    inbox          where all of it comes together
    loop           `Service`: takes one event after the other; receive, plan, run, settle
    slots          which slots are started, ready, busy, or being recovered
    ledger_writes  the driver's own records, committed by a thread beside
    recovery       void, fence, read, for slots that did not report cleanly
    idle           when `--until-idle` is over
    tally          what happened, counted and logged
    snapshot       what `/status` and the metrics show
    pages          how a snapshot is taken, and the endpoints that show it
    view           the ledger's cache as the catalogue wants to see it
    engine         Spark and the lanes, brought up beside the way to the lead
    start          one run, from its settings to its exit code
    stop           SIGTERM and SIGINT

Nothing outside ends it once it runs: what fails is tried again, and said.
"""
