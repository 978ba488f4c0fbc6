"""What the service decides: which objects are new, who works on them, when it is done.

*Listeners learn of objects; the catalogue decides which are new; the planner deals them to slots; tasks of a
Spark job decode and produce them in transactions that carry their checkpoints; then their messages are
deleted.*

     SQS ──▶ listeners/sqs ─────┐                       ┌──▶ slot 0 ─┐  GET, decode, produce
     (S3, SNS, EventBridge)     ├─▶ catalogue ─▶ planner ├──▶ slot 1 ─┼─▶ topics + ledger, one transaction
     LIST ─▶ listeners/listing ─┘    (ledger)           └──▶ slot n ─┘
                                       ▲                                  │
                                       └──────── committed positions ◀────┘ ─▶ delete messages

The rooms here:

    settings      the options: declared once, parsed, all problems at once                    pure
    notification  message body -> the objects it names                                        pure template
    KeyTemplate: compile, match, render, explain                                pure catalogue     what is
    known of each object; the ledger's states                           pure, the ledger behind a port planner
    pending objects -> work for free slots                                      pure service       the loop:
    receive, plan, run, settle, stop cli           run, check, explain, plan, status, replay, mark, setup
    http, metrics the endpoints

and what the rooms say to each other: `objects`, `positions`, `ledger`, `work`, `errors`. Beside this package
stand `listeners` (SQS and listings, asyncio) and `spark` (session, jobs, formats, producing); both know the
types here, nothing here knows them, and only the composition root (`ingest.cli`) knows everybody. The pure
rooms never import boto3, pyspark or a Kafka client.
"""
