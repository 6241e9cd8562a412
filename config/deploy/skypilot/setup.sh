#!/usr/bin/env bash
# setup.sh - what every host of the SkyPilot task prepares once: Sluice, locked memory, and ssh between the hosts.
#
# Started by `setup:` in kubernetes.yaml, vm.yaml and container.yaml, in the folder that holds it, sluice.deb and key.
# SSH_PORT is where sshd listens: 10022 in SkyPilot's container on a VM, else 22.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

sudo apt-get update
sudo apt-get install -y --no-install-recommends ./sluice.deb ibverbs-providers openssh-client

# An EFA queue pair locks its buffers; the default of 8 MiB is answered by -12.
echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/sluice.conf >/dev/null

# `sluice-bench matrix` starts its servers on rank 0 by ssh, with a key of this task alone.
mkdir -p ~/.ssh && chmod 700 ~/.ssh
install -m 600 key ~/.ssh/sluice-matrix
grep -qxF "$(cat key.pub)" ~/.ssh/authorized_keys 2>/dev/null || cat key.pub >>~/.ssh/authorized_keys
chmod 600 ~/.ssh/authorized_keys
cat >~/.ssh/config.sluice <<END
Host $(hostname -I | cut -d. -f1).*
  Port $SSH_PORT
  IdentityFile ~/.ssh/sluice-matrix
  StrictHostKeyChecking accept-new
END
grep -qxF 'Include config.sluice' ~/.ssh/config 2>/dev/null || sed -i.sluice '1i Include config.sluice' ~/.ssh/config
