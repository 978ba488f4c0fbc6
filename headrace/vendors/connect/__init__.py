"""What the sinks of Kafka Connect have in common.

options    converters and errors, as their configurations have them
"""
