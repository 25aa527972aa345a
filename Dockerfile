# calibd in a container. The build runs the steps of deploy/run, with the
# packages of deploy/packages:
#
#   docker build --tag calibd .
#   docker run --publish 127.0.0.1:8460:8460 --publish 127.0.0.1:8461:8461 calibd
#
# Inside a container only a non-loopback address can be reached from outside, so
# the settings below bind all interfaces, which calibd allows only with
# --insecure-allow-remote: publish the ports to loopback or a trusted network
# only, as above. They are variables, so that the health check sees them too. Prometheus may
# scrape the container by a name only if CALIBD_HTTP_HOSTS lists that name.
FROM debian:bookworm AS build
WORKDIR /src
COPY deploy/packages deploy/install-packages deploy/
RUN deploy/install-packages build
COPY . .
RUN deploy/run --build-only

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="calibd" \
      org.opencontainers.image.description="Calibration monitoring of predicted probabilities and forecasts over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
COPY deploy/packages deploy/install-packages /opt/calibd/deploy/
RUN /opt/calibd/deploy/install-packages run && rm -rf /opt/calibd /var/lib/apt/lists/*
COPY --from=build /src/build/release/bin/calibd /src/build/release/bin/calibctl /usr/local/bin/
ENV CALIBD_LISTEN=0.0.0.0:8460 \
    CALIBD_DATA_DIR=/var/lib/calibd \
    CALIBD_HTTP_LISTEN=0.0.0.0:8461 \
    CALIBD_INSECURE_ALLOW_REMOTE=true
RUN install --directory --mode 0700 --owner 65532 --group 65532 /var/lib/calibd
VOLUME /var/lib/calibd
USER 65532:65532
EXPOSE 8460 8461
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["calibd", "healthcheck"]
ENTRYPOINT ["calibd"]
