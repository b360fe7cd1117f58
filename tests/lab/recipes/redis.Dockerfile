# A server as the official images have it: it drops root, keeps its data in a volume, and brings no tool for networks.
ARG BASE
FROM ${BASE}
ARG FLAVOR
RUN groupadd --system --gid 999 ${FLAVOR} && useradd --system --uid 999 --gid ${FLAVOR} --home-dir /data ${FLAVOR} \
    && apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends ${FLAVOR}-server ${FLAVOR}-tools \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/* /etc/${FLAVOR} \
    && install -d -o ${FLAVOR} -g ${FLAVOR} /data
COPY entrypoint /usr/local/bin/entrypoint
ENV SERVER=${FLAVOR}-server SERVER_USER=${FLAVOR}
VOLUME /data
WORKDIR /data
EXPOSE 6379
ENTRYPOINT ["entrypoint"]
