"""What `headrace check` makes of what it found: each finding one small function. Pure.

    finding           what a finding is, what all of them together come to; Java, and addresses to listen on
    bucket_findings   the bucket: region, permissions, keys, clocks
    archive_findings  archives, what objects hold, and whether input.format reads it
    queue_findings    the queue and the bucket's notification to it
    kafka_findings    brokers, topics, the ledger, transactions

The facts are gathered in `ingest.checks.probes.probe_calls`; nothing here calls a service. A function
answers None where there is nothing to report: no queue is configured, or an earlier finding is in the way.
"""
