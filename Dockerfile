# Builds both commands, and puts them beside sh and git: what agents' tools need least. Toolchains for your projects go
# into an image of your own FROM this one. Start it with an init (docker run --init).
ARG GO_IMAGE=golang:1.26
ARG BASE_IMAGE=alpine:3.22

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What `agentd --version` tells; the build here has no git to ask.
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X main.stamped=${VERSION}" -o /out/ ./cmd/agentd ./cmd/agentctl

FROM ${BASE_IMAGE}
# A base that has git already needs no network here.
RUN command -v git >/dev/null || apk add --no-cache git ca-certificates
# The daemon refuses a socket directory that others may enter.
RUN mkdir -p /home/agentd /var/lib/agentd /run/agentd /workspace \
    && chown 10001:10001 /home/agentd /var/lib/agentd /run/agentd /workspace \
    && chmod 0700 /var/lib/agentd /run/agentd
COPY --from=build /out/agentd /out/agentctl /usr/local/bin/
COPY LICENSE /usr/share/doc/agentd/LICENSE
ENV HOME=/home/agentd XDG_STATE_HOME=/var/lib XDG_RUNTIME_DIR=/run AGENTD_WORKSPACE=/workspace
USER 10001:10001
WORKDIR /workspace
VOLUME ["/var/lib/agentd", "/run/agentd", "/workspace"]
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["agentctl", "status", "--no-start"]
ENTRYPOINT ["agentd"]
