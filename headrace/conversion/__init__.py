"""Objects to records and back: format, vendor and transforms put together. No client, no thread.

archives          the decoder of an archive's objects, and who reads their rows; joined reads values with
                  their side objects; archive_heads finds the row that shows what all of them are
sink_records      a fetch of one partition as runs of one schema, and faults, with its transforms
source_records    what an object's rows become when there are transforms
encoders          the encoder of each layout and format, and what rows of a layout cannot hold; side_rows
                  those of keys and headers
writable_runs     runs of one schema, values that are not what it says, nulls that have no place in an output
"""
