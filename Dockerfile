# calibd in a container. docs/deploy.md says how to build and run it. The build runs the steps of
# deploy/run, with the packages of deploy/packages.
#
# The bases are arguments without a default: an image to keep names them by digest. docs/deploy.md
# says how to find the digests.
ARG BUILD_BASE
ARG RUN_BASE

FROM ${BUILD_BASE} AS build
WORKDIR /src
COPY deploy/packages deploy/install-packages deploy/
RUN deploy/install-packages build
COPY . .
RUN deploy/run --build-only

FROM ${RUN_BASE} AS run
COPY deploy/packages deploy/install-packages /opt/calibd/deploy/
RUN /opt/calibd/deploy/install-packages run && rm -rf /opt/calibd /var/lib/apt/lists/*
COPY --from=build /src/build/release/bin/calibd /src/build/release/bin/calibctl /usr/local/bin/

# Makes certificates and tokens for deploy/compose.yaml.
FROM run AS setup
COPY deploy/packages deploy/install-packages /opt/calibd/deploy/
RUN /opt/calibd/deploy/install-packages setup && rm -rf /opt/calibd /var/lib/apt/lists/*
COPY deploy/make-secrets deploy/compose/setup /usr/local/bin/
# A new volume gets the owner of the folder on which it is mounted.
RUN install --directory --mode 0755 --owner 65532 --group 65532 \
    /secrets/ca /secrets/server /secrets/prometheus /secrets/client /secrets/grafana
USER 65532:65532
ENTRYPOINT ["setup"]

FROM run
LABEL org.opencontainers.image.title="calibd" \
      org.opencontainers.image.description="Calibration monitoring of predicted probabilities and forecasts over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
# Only an address other than loopback can be reached from outside of a container. calibd does not
# start on one without TLS and a way to know clients. The settings are variables, so that the
# health check has them too.
ENV CALIBD_LISTEN=0.0.0.0:8460 \
    CALIBD_HTTP_LISTEN=0.0.0.0:8461 \
    CALIBD_DATA_DIR=/var/lib/calibd
RUN install --directory --mode 0700 --owner 65532 --group 65532 /var/lib/calibd
VOLUME /var/lib/calibd
USER 65532:65532
EXPOSE 8460 8461
STOPSIGNAL SIGTERM
# A health check may fail for 10 s after the certificate was renewed.
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 CMD ["calibd", "healthcheck"]
ENTRYPOINT ["calibd"]
