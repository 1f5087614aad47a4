# Image of millrace-server, with millrace-data to pack and inspect datasets
# inside the cluster.
#
#   docker build -f deploy/server.Dockerfile -t millrace-server .
#   docker run -p 7001:7001 -v /srv/datasets:/data:ro millrace-server \
#       --dataset=photos=lmdb:/data/photos.lmdb --listen=0.0.0.0:7001
#
# Package versions are not pinned, so that a build gets Debian's security
# updates.
FROM debian:bookworm-slim AS build
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
WORKDIR /src
COPY tools/setup tools/common.sh tools/packages.txt tools/
RUN tools/setup
COPY . .
RUN tools/build --without=train --output=/opt/millrace \
    && rm -rf /root/.cache

FROM debian:bookworm-slim
COPY deploy/server.packages /tmp/server.packages
# hadolint ignore=DL3008,SC2046
RUN apt-get update \
    && apt-get install -y --no-install-recommends $(grep -v '^#' /tmp/server.packages) \
    && rm -rf /var/lib/apt/lists/* /tmp/server.packages \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin millrace
COPY --from=build /opt/millrace /opt/millrace
ENV PATH=/opt/millrace:$PATH
USER 10001:10001
EXPOSE 7001
# After SIGTERM, running streams may finish within shutdown_grace_ms.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/opt/millrace/millrace-server"]
