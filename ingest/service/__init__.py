"""The service: one thread that owns the catalogue and the planner, and is told by all others.

    events         what reaches the inbox from our own threads (the listeners' and lanes' come as they are)
    inbox          where all of it comes together
    composition       one run, from its settings to its exit code: what lives as long as the process
    startup           what has to be there before that: topics, the ledger's topic, the bucket
    leadership_phase  one leadership: joins, waits for the lead, takes the ledger over, leads, ends
    event_loop        takes one event after the other; receive, plan, run, settle
    slot_supervisor   slots started, given batches, voided and recovered
    apply_effects     what was decided, handed to whoever does it
    slots          which slots are started, ready, busy, or being recovered
    ledger_writes  the driver's own records, committed by a thread beside
    recovery       void, fence, read, for slots that did not report cleanly
    idle           when `--until-idle` is over
    tally          what happened, counted and logged
    snapshot       what `/status` and the metrics show
    pages          how a snapshot is taken, and the endpoints that show it
    view           the ledger's cache as the catalogue wants to see it
    engine         Spark, brought up beside the way to the lead; lanes for each leadership
    stop           SIGTERM and SIGINT

Nothing outside ends it once it runs: what fails is tried again, and said.
"""
