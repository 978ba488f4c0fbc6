"""Objects to records, as the leader decides it: pure, but for what asks the ledger's topic for commands.

catalogue       what is known of each object, and what becomes of it; begin here
planner         pending objects to free slots
notification    a message's body as events
key_routes      the topic and partition that a key leads to
object_selection  objects by key, prefix or time, for commands
command_queue, command_records    what operators asked the leader for
"""
