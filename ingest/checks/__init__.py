"""What `headrace check` makes of what it found: each finding one small function. Pure.

    finding   what a finding is, and what all of them together come to
    machine   Java, and the addresses to listen on
    bucket    the bucket: region, permissions, archives, keys, clocks
    content   what objects hold, and whether input.format reads it
    queue     the queue and the bucket's notification to it
    kafka     brokers, topics, the ledger, transactions

The facts are gathered in `ingest.probes.probe_calls`; nothing here contacts anybody. A function answers None
where there is nothing to say: no queue is configured, or an earlier finding stands in the way.
"""
