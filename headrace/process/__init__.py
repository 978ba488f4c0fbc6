"""What every process of ours has: threads whose end is seen, logs, and their levels.

threads     start_thread, and failures that reach the one who waits
descriptors how many files and connections it may have open
regular_files what a configuration names, opened where it is a file
hidden_keys what a JVM is not to see of the environment
logs        structlog, as lines for people or as JSON; log_levels changes what is written
"""
