"""The service: one thread decides, all others post to its inbox. Begin with `composition`, then `event_loop`.

    composition       one run, from its settings to its exit code, and the connector in it
    startup           what has to be there before that: topics, the ledger's topic, the bucket
    leadership_phase  waits for the lead; then one leadership: joins, takes the ledger over, leads, ends
    source_start      what a source's leadership begins with: catalogue, planner, first inventory
    source_leader     what the source does with the lead: catalogue, planner, listeners
    leading           how either direction leads, and how that ends
    event_loop        takes one event after the other; receive, plan, run, settle
    service_events    what our own threads report to the service's
    slot_supervisor, slot_states   slots started, given batches, voided and recovered
    apply_effects     what was decided, handed to the component that does it
    ledger_writes     the driver's own records, committed by a thread next to; void, fence, read, for slots
                      that did not report cleanly
    lifecycle         pause, stop, resume and other offsets, as the REST interface asks for them
    idle              when `--until-idle` is over
    statistics        what happened, counted and logged
    endpoints         how a snapshot is taken, and the endpoints that show it
    rest_adapter, standby   what the REST interface asks of a leader, and of a standby
    spark_startup     Spark, brought up while the process waits for the lead
    stop              SIGTERM and SIGINT; what a start waits for until they come

Nothing outside ends it once it runs: what fails is tried again, and reported.
"""
