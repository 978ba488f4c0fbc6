"""What a slot of the source does in Spark's Python workers: one batch of objects after the other.

source_work      what a job carries: warm the worker, run the slot; and the settings that a task needs;
                 what outlives a task in its Python process: the S3 client, limits
batch            one batch: transactions, checkpoints, outcomes
transaction      the open transaction, and how far each split of a batch is, sent and committed
pipeline         decoding in a thread of its own, a few batches of rows ahead
decoding         what a format needs to know of the settings and the object
dead_letters     what becomes of bad rows: quarantine, dead letters, log lines
"""
