"""The Kafka side of the driver: every step of the exactly-once protocol, with its reason beside it.

clients       properties -> librdkafka clients, their logs in ours
errors        KafkaError -> ingest.errors, by code and flags
membership    the group metadata that every transaction carries
leadership    holding the ledger's partition in the group is the lead
fencing       ending whatever a transactional id had open
ledger_topic  the topic itself: made, verified, identified
identity      the group remembers which ledger was its own
follower      reading the ledger, to its true end and onwards, into
cache         .. the local copy, with cache_home deciding where it lies
writer        the driver's own transactions
controls      ledger records that are no objects
ledger        the above put together: take over, recover, commit
topics        the output topics
"""
