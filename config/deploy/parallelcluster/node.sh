#!/usr/bin/env bash
# node.sh - what a compute node needs to run a Sluice that was built on the head node: its libraries.
# ParallelCluster runs it as root once the node is configured (CustomActions in cluster.yaml).
set -euo pipefail

# The libraries of tools/packages.run, by the names that Debian and Ubuntu share.
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install --no-install-recommends libnuma-dev libconfig-dev libjansson-dev libmicrohttpd-dev libxxhash-dev \
    libsodium-dev libseccomp-dev libedit-dev zlib1g-dev ethtool gnuplot-nox

# Amazon's libfabric, which the image has, and whose EFA is newer than Ubuntu's.
echo /opt/amazon/efa/lib >/etc/ld.so.conf.d/000-efa.conf
ldconfig
