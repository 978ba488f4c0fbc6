"""Producing: transactions that carry their checkpoints, and the two ways in which rows get into them.

properties     librdkafka's properties for a slot's producer
target         where the rows of an object go, and what is the same for all of them
ordinary       a call of `produce` for each row: serves everything
buffer         a whole batch of rows in one call of librdkafka, without a Python object for each
partitioner    the partition of an object's constant key, found once
window         how far ahead of the broker rows are handed over
topics         how many partitions there are
library        the librdkafka inside the confluent-kafka wheel, and the check that it is the expected one
transactional  exactly once: records, checkpoints and the group commit in one transaction
idempotent     at least once: records first, checkpoints after they are acknowledged
"""

from spark.producer.idempotent import IdempotentProducer
from spark.producer.slot_producer import SlotProducer, SlotRevoked
from spark.producer.target import RecordTarget
from spark.producer.transactional import TransactionalProducer

__all__ = ["IdempotentProducer", "RecordTarget", "SlotProducer", "SlotRevoked", "TransactionalProducer"]
