"""`headrace worker`: many connectors, sources and sinks, in one process and one Spark session.

worker_settings       the worker's file
configuration_topic   who leads the workers; read by all, written by the one that leads
membership            which other workers live, and which of them runs which connector
connector_files       connectors from a folder instead of the topic
shared_slots          Spark's cores, shared by all connectors
hosted_connector      one connector in a thread of its own: started, stopped, failed, started again
changes               create, configure, delete: judged and written by the worker that leads
worker_directory      what the REST interface shows
worker_routes         Connect's REST interface of a worker, and what it forwards to another one
worker_pages          /status, /metrics and the pages
worker                the process

Each connector has leadership, ledger, slots and failure of its own; docs/worker.md tells what that means.
"""
