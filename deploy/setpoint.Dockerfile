# The image of the service alone. `make image-service` builds it, as the other.
FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
ARG CREATED
LABEL org.opencontainers.image.title="setpoint-service" \
      org.opencontainers.image.description="How many replicas should this workload have now, and why?" \
      org.opencontainers.image.source="https://github.com/setpoint-dev/setpoint" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY setpoint /
USER 65532:65532
EXPOSE 8080 9090 9091
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/setpoint", "health"]
ENTRYPOINT ["/setpoint"]
CMD ["serve"]
