"""What answers over HTTP, and what it shows: below the service, which it knows by ports only.

http_server       limits, slow clients, chunked answers
other_sites       Host and Origin of web pages
rest              Kafka Connect's REST interface
page              the status page
snapshot          what /status says
metrics           /metrics
traces            an object's way as an OpenTelemetry trace
"""
