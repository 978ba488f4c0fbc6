"""`headrace worker`: many connectors, sources and sinks, in one process and one Spark session.

worker_settings       the worker's file, and the folder with a file for each connector
connector_configurations   the configuration topic, by which one worker leads
connector_loading     how far it is read; one configuration, next to the worker's file
other_workers         which other workers live, which of them runs which connector, requests passed on
shared_slots          Spark's cores, shared by all connectors
hosted_connector      one connector in a thread of its own: started, stopped, failed, started again
hosted_connectors     which worker runs which; those of this one, as they come, change and go
changes               create, configure, delete: judged and written by the worker that leads
worker_view           what the REST interface, /status, /metrics and the pages show
worker_routes         Connect's REST interface of a worker, and what it forwards to another one
worker                the process

Each connector has leadership, ledger, slots and failure of its own; docs/worker.md tells what that means.
"""
