"""What answers over HTTP, and what it shows: below the service, which it knows by ports only.

http_server       limits, slow clients, chunked answers
requests          a request's Host and Origin, and its body
rest              Kafka Connect's REST interface
page              the status page
snapshot          what /status says
metrics           /metrics
traces            an object's way as an OpenTelemetry trace
"""
