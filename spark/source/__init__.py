"""What runs in Spark's Python workers: the loop of a slot, and one batch of work.

settings   what a task needs of the settings
entry      the function that a job hands to Spark
process    what outlives a task in its Python process: clients, cached producers, the worker's name
link       the task's end of the socket
loop       hello, producer, batch after batch, end
batch      one batch: transactions, checkpoints, outcomes
progress   how far each work of a batch is, sent and committed
pipeline   decoding in a thread of its own, a few batches of rows ahead
decoding   what a format needs to know of the settings and the object
bad_rows   what becomes of bad rows: quarantine, dead letters, log lines
"""
