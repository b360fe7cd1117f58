# Only a way to Debian's package of the compose plugin, which the lab takes out of here.
ARG BASE
FROM ${BASE}
RUN apt-get -qq update && apt-get -qq -y install --no-install-recommends docker-compose && apt-get clean
CMD ["true"]
