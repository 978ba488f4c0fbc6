"""What needs Spark: the session, the job of a slot, what its task does with a batch, and the data source.

session    the SparkSession, built in one place: our code for executors, master, jvm, memory
slots      the driver's side of the slots: jobs, the socket that hands out batches, its answers
task       the loop of a slot: initialise, ask, do, report, ask again; daemon forks its processes
source     what a task does with splits: read, decode, produce, commit
sink       what a task does with partitions: consume, convert, encode, upload, commit
frames     `format("headrace")` for queries
socket_protocol    what driver and task say to each other
spark_conf, dump_classes    Spark's configuration, and its classes for quick starts
"""
