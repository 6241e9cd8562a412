#!/bin/sh
# host.sh - on a host of this stack, as root: Sluice's package, and Amazon's EFA driver and libfabric, which Debian 12 lacks.
#
#     sudo sh host.sh sluice_0.1.0_arm64.deb
#
# 1.49.0 of the installer has the libfabric of the published table, 2.4.0amzn5.0.
set -eu
version=1.49.0
package=$(realpath "${1:?the package to install}")
headers=linux-headers-$(uname -r)

export DEBIAN_FRONTEND=noninteractive
apt-get -q update
# The driver is compiled for the kernel that runs; Debian keeps headers of the latest only.
if [ -z "$(apt-cache policy "$headers")" ]; then
    echo "host.sh: no $headers any more: apt-get dist-upgrade, reboot, then this again" >&2
    exit 1
fi
apt-get -q -y install --no-install-recommends "$package" "$headers" ca-certificates curl ethtool gnuplot-nox tmux

cd "$(mktemp -d)"
curl -fsSO "https://efa-installer.amazonaws.com/aws-efa-installer-$version.tar.gz"
tar -xf "aws-efa-installer-$version.tar.gz"
(cd aws-efa-installer && ./efa_installer.sh -y)

# Before Debian's own libfabric, also for servers that are started by ssh.
echo /opt/amazon/efa/lib >/etc/ld.so.conf.d/000-efa.conf
ldconfig
sluice-bench machine
