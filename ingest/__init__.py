"""The service: what a process decides, and how it is operated.

*Listeners learn of objects; the catalogue decides which are new; the planner deals them to slots; tasks of a
Spark job decode and produce them in transactions that carry their checkpoints; then their messages are
deleted.*

     SQS ──▶ listeners/sqs ─────┐                       ┌──▶ slot 0 ─┐  GET, decode, produce
     (S3, SNS, EventBridge)     ├─▶ catalogue ─▶ planner ├──▶ slot 1 ─┼─▶ topics + ledger, one transaction
     LIST ─▶ listeners/listing ─┘    (ledger)           └──▶ slot n ─┘
                                       ▲                                  │
                                       └──────── committed positions ◀────┘ ─▶ delete messages

source, sink    what the leader decides, for each direction
service    one thread decides, all others post to its inbox: leadership, slots, event loop, statistics
http       what answers over HTTP, and what it shows
connect    `headrace worker`: many connectors in one process
checks     what commands ask of bucket, queue, broker and ledger
cli        the commands, and the only reader of the environment
"""
