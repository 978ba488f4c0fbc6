"""Kafka: every step of the exactly-once protocol with its reason, clients, producing and consuming.

kafka_clients   properties -> librdkafka clients, their logs in ours; tokens log in by AWS's or OAuth's
kafka_errors    KafkaError -> classes of `headrace.model.errors`, by code and flags
group_metadata  what every transaction carries, and the group commit; group_member
leadership      holding the ledger's partition in the group is the lead
fencing         ending whatever a transactional id had open
ledger_topic    the topic itself: made, verified, identified; ledger_topic: which was the group's own
ledger_follower    reads the ledger, to its true end and onwards, into a ledger_cache
ledger_writer   the driver's own transactions; control_records are records that are no objects
driver_ledger   the above put together: take over, recover, commit
output_topics   which topics there are, with how many partitions; topic_survey asks for many
producer        what a slot writes with; consumer: what it reads with
"""
