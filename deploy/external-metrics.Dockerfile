# The image of setpoint-external-metrics. `make image-external-metrics` builds it, as the other.
FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
ARG CREATED
LABEL org.opencontainers.image.title="setpoint-external-metrics" \
      org.opencontainers.image.description="Setpoint's recommendations as external.metrics.k8s.io" \
      org.opencontainers.image.source="https://github.com/setpoint-dev/setpoint" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY setpoint-external-metrics /
USER 65532:65532
EXPOSE 6443
ENTRYPOINT ["/setpoint-external-metrics"]
