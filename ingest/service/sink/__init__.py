"""The sink's leader, next to the source's: one thread decides by `archive`, all others post to its inbox.

sink_leader     composes what a leadership of the sink needs, and unmakes it
sink_loop       takes one event after the other, and carries out what the archive decides
sink_slots      slots started, given partitions, voided and recovered
topic_watch     asks the brokers about topics, offsets and the group, in a thread of its own
completer       completes the uploads of what slots left pending; events for the thread that decides
sink_statistics what happened, counted and shown, also in /status
"""
