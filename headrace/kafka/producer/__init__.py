"""Producing: transactions that carry their checkpoints, and the two ways in which rows get into them.

slot_producers exactly once: records, checkpoints and the group commit in one transaction; at least
               once: records first, checkpoints after they are acknowledged
batch_produce  a whole batch of rows in one call of librdkafka, without a Python object for each; the
               partition of an object's constant key, found once
record_calls   a call for each row, which serves everything
window         how far ahead of the broker rows are handed over; a producer's properties and partitions
"""

from headrace.kafka.producer.record_calls import SlotProducer, SlotRevoked
from headrace.kafka.producer.slot_producers import IdempotentProducer, TransactionalProducer

__all__ = ["IdempotentProducer", "SlotProducer", "SlotRevoked", "TransactionalProducer"]
