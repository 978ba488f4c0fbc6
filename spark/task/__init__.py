"""What every slot's task does in Spark's Python workers, whatever it works on.

entry         the function that a job hands to Spark
slot_session  the task's end of the socket: hello, producer, batch after batch, end; what outlives a task
"""
