"""Kafka Connect's REST interface for the one connector that an ingester is, on `rest.listen`.

port          what the interface asks of the service
router        requests to functions, by path and method; Connect's JSON; levels of loggers
rest_routes   which method of which path does what
rest_offsets  the ledger as Connect's partitions and offsets, there and back, a source's and a sink's
plugins       the options as Connect's definitions, and a configuration judged by them
auth          which requests are allowed
server        the above on an address

Paths, shapes, codes and words are Kafka Connect 4.1's; docs/rest.md says where and why they differ.
"""
