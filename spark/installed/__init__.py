"""What has a session's processes import the PySpark that is installed, rather than Spark's archive of it.

Begin with `sitecustomize`, which Python itself runs where this folder is on its path.
"""
