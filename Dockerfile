# syntax=docker/dockerfile:1
# Every RUN calls a script of docker/, so that what builds the image also runs, and is tested, without an engine.

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
COPY docker docker
COPY requirements.lock .
RUN docker/make-venv /opt/headrace requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY ingest ingest
COPY listeners listeners
COPY spark spark
RUN docker/install-headrace /opt/headrace

FROM python:3.11-slim-bookworm
RUN --mount=type=bind,source=docker,target=/docker /docker/install-java
RUN --mount=type=bind,source=docker,target=/docker /docker/add-user
COPY --from=build /opt/headrace /opt/headrace
# Logs leave at once, and Spark's Python workers run in the very environment of the driver.
ENV PATH=/opt/headrace/bin:$PATH PYTHONUNBUFFERED=1 PYSPARK_PYTHON=/opt/headrace/bin/python
WORKDIR /var/lib/headrace
USER 10001:10001
EXPOSE 8085
# The exec form: Headrace is process 1, and SIGTERM reaches it.
ENTRYPOINT ["headrace"]
CMD ["--help"]
