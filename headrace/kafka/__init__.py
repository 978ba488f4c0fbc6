"""Kafka: every step of the exactly-once protocol with its reason, clients, producing and consuming.

kafka_clients   properties -> librdkafka clients, their logs in ours; tokens log in by AWS's or OAuth's
kafka_errors    KafkaError -> classes of `headrace.model.errors`, by code and flags
leadership      holding the ledger's partition in the group is the lead
fencing         ending whatever a transactional id had open, and the group commit that transactions carry
ledger_topic    the topic itself: made, verified, identified, and which was the group's own
ledger_follower    reads the ledger, to its true end and onwards, into a ledger_cache
ledger_reader   the same for those who do not lead
ledger_writer   the driver's own transactions; control_records are records that are no objects
driver_ledger   the above put together: take over, recover, commit
data_topics     which topics of records there are, with how many partitions
producer        what a slot writes with; consumer: what it reads with
"""
