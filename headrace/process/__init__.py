"""What every process of ours has: threads whose end is seen, logs, and their levels.

threads     start_thread, and failures that reach the one who waits; of_each, several calls at once
own_process its version, how many files it may have open, what a JVM is not to see of the environment; what
            a configuration names, opened where it is a file
logs        structlog, as lines for people or as JSON; RetryLog, LastingTrouble: how often it says that it
            fails again; log_levels changes what is written
"""
