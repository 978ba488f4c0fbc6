# syntax=docker/dockerfile:1
# Every RUN calls a script of docker/, so that what builds the image also runs, and is tested, without an engine.

# By tag, so that a new build takes the base's security fixes. For the very same base each time:
# docker build --build-arg PYTHON_IMAGE=python@sha256:...
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
COPY docker docker
COPY requirements.lock .
# For spark.remote: docker build --build-arg MORE_LOCKS=docker/connect.lock ...
ARG MORE_LOCKS=
RUN docker/make-venv /opt/headrace requirements.lock ${MORE_LOCKS}
COPY pyproject.toml pyspark_headrace.py README.md LICENSE THIRD-PARTY.md ./
COPY headrace headrace
COPY ingest ingest
COPY listeners listeners
COPY spark spark
# For headrace_build_info: docker build --build-arg HEADRACE_COMMIT=$(git rev-parse HEAD) ...
ARG HEADRACE_COMMIT=
RUN docker/install-headrace /opt/headrace
RUN docker/drop-build-tools /opt/headrace/bin/python
RUN docker/drop-unused /opt/headrace

FROM ${PYTHON_IMAGE}
RUN --mount=type=bind,source=docker,target=/docker /docker/install-java
RUN --mount=type=bind,source=docker,target=/docker /docker/add-user
RUN --mount=type=bind,source=docker,target=/docker /docker/drop-build-tools /usr/local/bin/python3
COPY --from=build /opt/headrace /opt/headrace
COPY docker/health /opt/headrace/bin/headrace-health
# Logs leave at once, nothing is written beside the code, Spark's Python workers run in the very environment of
# the driver, and state.dir is /var/lib/headrace whoever runs it.
ENV PATH=/opt/headrace/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=/opt/headrace/bin/python \
    XDG_STATE_HOME=/var/lib
# Here, where Java and Spark are those that will run.
RUN --mount=type=bind,source=docker,target=/docker /docker/share-classes /opt/headrace
# Once more: an argument from before the first FROM is empty after it.
ARG PYTHON_IMAGE
LABEL org.opencontainers.image.title="Headrace" \
    org.opencontainers.image.description="S3 to Kafka and Kafka to S3, exactly once" \
    org.opencontainers.image.version="1.0.0" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="${PYTHON_IMAGE}"
WORKDIR /var/lib/headrace
USER 10001:10001
EXPOSE 8085
# Live, not ready: what is restarted for being unhealthy shall not be so for an outage of S3.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["headrace-health"]
# The exec form: Headrace is process 1, and SIGTERM reaches it.
ENTRYPOINT ["headrace"]
# The file's http.listen is for one machine; from outside a container only every address of it can be reached.
CMD ["run", "/etc/headrace/headrace.json", "--set", "http.listen=0.0.0.0:8085"]
