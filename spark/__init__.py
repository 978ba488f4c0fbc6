"""What runs on Spark: the session, the job of a slot, and inside its tasks reader, formats and producer.

session    the SparkSession, built in one place; shipping sends our code to executors
slots      the driver's side of the slots: jobs, the socket that hands out work, its answers
task       the loop of a slot: initialise, ask, do, report, ask again
s3         GETs of objects, without botocore's cost for each; errors in our words
reader     objects as sources: streams and ranges, one content only
rows       the batch shape that every format and both produce paths share
formats/   one decoder a format: source and position in, batches of rows out
compression, records   bytes of a stream; key, value, headers and timestamp of a row
producer/  transactions with their checkpoints; the ordinary and the buffer path
"""
