"""Single message transforms, applied: between converters and objects (sink), before Kafka (source).

record_chain     the chain: conditions, steps, and what comes of each run
header_topic_steps, field_steps, value_steps, time_steps, timestamp_steps,
                 change_event_steps   the steps by what they change
step_values, struct_objects   keys and values as objects, without a schema and with one; numbers, texts and
                 times as Java writes and reads them

`headrace.conversion.sink_records` and `headrace.conversion.source_records` apply it in each direction.
"""
