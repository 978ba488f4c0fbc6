"""Headrace as a data source of Spark: new objects of a bucket as rows of a query, and rows into layouts.

frame_options  the options of the source and of the writer, with those of `headrace run` among them
addresses      a bucket and its prefix, or a directory, of what is written as one; pure
refused_options  what a frame has no place for, and what to use instead; pure
log_entries    entries and snapshots of the discovery log, and what is known of them; pure
log_store      a directory or a prefix of S3, in which a name has one writer, and tasks note bad rows
discovery_log  the log: a batch is durable before Spark learns of it
admission      which of the objects that wait go into a batch; pure
new_objects    events and listings, filtered and held against the log
batch_splits   the splits of a batch, and what a task gets of them
record_rows, column_rows, column_types   rows as Arrow: records, or columns of a schema, whose types are pure
reading        a task: its splits as Arrow, bad rows and objects that have changed
refusals       refusals without the stacks of their causes; a stream's reader of one
source         what PySpark asks of a data source, begin here
writing        rows of a query into objects, completed when their batch is committed
frame_completion  uploads of tasks made visible by the driver, or given up
written_batches  which objects and rows each batch of a writing query has
"""
