"""What every slot's task does in Spark's Python workers, whatever it works on.

entry              the function that a job hands to Spark
worker             the worker's name, and the slots' producers that outlive a task in it
driver_connection  the task's end of the socket
slot_session       hello, producer, batch after batch, end
"""
