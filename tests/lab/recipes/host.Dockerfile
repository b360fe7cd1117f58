# A Debian machine with systemd and sshd; what the playbooks install lies in an archive of its own, so they need no network.
ARG BASE
FROM ${BASE}
ARG SERVERS
RUN apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends \
        systemd systemd-sysv dbus openssh-server python3 sudo nftables iproute2 procps apt-utils \
    && mkdir /srv/apt && cd /srv/apt \
    && apt-get -qq -y -o Dir::Cache::archives=/srv/apt install --download-only --no-install-recommends \
        ${SERVERS} python3-apt acl logrotate \
    && rm -rf lock partial && apt-ftparchive packages . >Packages \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /etc/apt/sources.list.d \
    && echo 'deb [trusted=yes] file:/srv/apt ./' >/etc/apt/sources.list && apt-get -qq update
RUN useradd --create-home --shell /bin/bash --password '*' ops \
    && install -d -m 700 -o ops -g ops /home/ops/.ssh \
    && echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops && chmod 440 /etc/sudoers.d/ops \
    && rm -f /etc/ssh/ssh_host_* \
    && systemctl --quiet mask console-getty.service getty.target systemd-udevd.service
COPY host-init /usr/local/sbin/host-init
STOPSIGNAL SIGRTMIN+3
CMD ["/usr/local/sbin/host-init"]
