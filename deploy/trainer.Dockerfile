# Image of millrace-train and of the command line client millrace, for the CPU.
#
#   docker build -f deploy/trainer.Dockerfile -t millrace-trainer .
#   docker run --network=host millrace-trainer --endpoint=127.0.0.1:7001 \
#       --dataset=photos --model=resnet18 --epochs=1 --batch_size=64
#
# Package versions are not pinned, so that a build gets Debian's security
# updates.
FROM debian:bookworm-slim AS build
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
WORKDIR /src
COPY tools/setup tools/common.sh tools/packages.txt tools/
RUN tools/setup
COPY . .
RUN tools/build --output=/opt/millrace \
    && rm -f /opt/millrace/millrace-server /opt/millrace/millrace-data \
        /opt/millrace/lib/libarrow* /opt/millrace/lib/libparquet* \
    && rm -rf /root/.cache

FROM debian:bookworm-slim
COPY deploy/trainer.packages /tmp/trainer.packages
# hadolint ignore=DL3008,SC2046
RUN apt-get update \
    && apt-get install -y --no-install-recommends $(grep -v '^#' /tmp/trainer.packages) \
    && rm -rf /var/lib/apt/lists/* /tmp/trainer.packages \
    && useradd --system --uid 10001 --create-home --shell /usr/sbin/nologin millrace
COPY --from=build /opt/millrace /opt/millrace
ENV PATH=/opt/millrace:$PATH
USER 10001:10001
WORKDIR /home/millrace
ENTRYPOINT ["/opt/millrace/millrace-train"]
