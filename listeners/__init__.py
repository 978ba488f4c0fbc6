"""How objects become known: the queue of notifications, listings of the bucket, and the switch between them.

All of it is asyncio in one thread of its own (`listeners.listeners`); what it learns it hands to the
service's thread as the small frozen messages of `listeners.discovery_events`.
"""
