"""What the commands beside `run` share: asking S3, SQS, Kafka and the service, and handing commands over.

    aws       clients of S3 and SQS for single questions
    bucket    the bucket's keys, page by page
    intake    what `run` would take in, from the same settings
    ledger    reading the ledger without leading, and whether somebody leads
    orders    what `replay` and `mark` ask for, as records of the ledger
    sending   writing such records without the lead
    handing   to the leader, or taking the lead for them
    choosing  which objects a command is for
    service   what a running service says of itself
    forecast  what `plan` counts

Nothing here is needed by a running service but `orders`.
"""
