"""What every slot's task does in Spark's Python workers, whatever it works on.

entry              the function that a job hands to Spark
driver_connection  the task's end of the socket
slot_session       hello, producer, batch after batch, end; producers that outlive a task in its process
"""
