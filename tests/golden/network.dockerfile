# Made by lumicontainer from the recipe 'hello' for the platform 'workstation' and the profile 'old'.
# It is complete, and needs neither a build context nor BuildKit: docker build -t hello - < Dockerfile
# Only lumicontainer build records the modes of the base's files: the check image/files may fail for some.
ARG BASE=ubuntu:noble-20260324@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
FROM ${BASE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
LABEL org.opencontainers.image.title="hello" \
      org.opencontainers.image.description="a network, fetched" \
      org.opencontainers.image.version="old"

# layer: docked (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: network (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: tool (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

# layer: lumicontainer (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<… && bash /run/lumicontainer-step && rm /run/lumicontainer-step

ENV PYTHONNOUSERSITE="1"
ENV NETWORK_HOME="/opt/network"
ENTRYPOINT ["/opt/lumicontainer/bin/lumi-entry"]
