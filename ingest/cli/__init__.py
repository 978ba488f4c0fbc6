"""The commands: the composition root, which alone knows every room and reads the environment.

app              the command `headrace`, begin here; each command is in a module of its name
configuration_commands    lint, translate and options
cli_options      arguments and options that commands share
configuration    from a file and the environment to settings
replay_and_mark, object_command, submit    commands to the leader, their steps, and how they reach it
sink_check_and_plan, sink_explain, query_commands    the same commands for a sink, and for a query of Spark
interrupts, progress_bar    signals, and how far a command has come
"""
