"""Objects to records and back: format, vendor and transforms put together. No client, no thread.

archives          the decoder of an archive's objects; joined reads values with their side objects
record_converter  a fetch of one partition as runs of one schema, and faults; sink_records with its transforms
source_records    what an object's rows become when there are transforms
encoders          the encoder of each layout and format; side_rows those of keys and headers
row_fit           values that are not what their schema says; writable_runs, layout_rows_check
"""
