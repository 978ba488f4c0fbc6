"""What a slot of the sink does: consume, group, encode, upload, commit, complete.

sink_work             what the job carries; sink_run: one batch, begin here
record_feed           fetched records to their partitions; partition_work: one of them
grouping              which group a record is of; grouping_options: by which options, earlier ones too
routed_tools          what all partitions work with, by their topics
partition_objects     the open objects of a partition; rotation: when they close
names_and_openings    what a partition's objects are called; since when what is read again was open
open_group            an object with its keys and headers; open_object: one that is being filled
object_shape          what an object consists of, and what it begins with; object_keys: its key
slot_uploads          memory, disk and parts of all of them, what S3 has not completed; spill, send_pool
partition_offsets     how far a partition is; sink_transaction: where that is committed
bad_records           dead letters
frame_writer          rows of a user's query instead of records; frame_records: as records of Kafka
"""
