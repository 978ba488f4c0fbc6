"""Objects to records, as the leader decides it: pure, but for what asks the ledger's topic for commands.

catalogue       what is known of each object, and what becomes of it; begin here
planner         pending objects to free slots
notification    a message's body as events
object_selection  objects by key, prefix or time, and the topic and partition that a key leads to
first_starts    what the ledger remembers of first starts, and which objects these leave out
command_queue   what operators asked the leader for
"""
