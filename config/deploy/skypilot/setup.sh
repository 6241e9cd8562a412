#!/usr/bin/env bash
# setup.sh - what every host of the SkyPilot task prepares once: Sluice, locked memory, and ssh between the hosts.
#
# Started by `setup:` in kubernetes.yaml, vm.yaml and container.yaml, in the folder that holds it, sluice.deb and key.
# SSH_PORT is where sshd listens: 10022 in SkyPilot's container on a VM, else 22.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

sudo apt-get update
sudo apt-get install -y --no-install-recommends ./sluice.deb ibverbs-providers openssh-client gnuplot-nox

# An EFA queue pair locks its buffers; the default of 8 MiB is answered by -12.
echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/sluice.conf >/dev/null

# `sluice-bench matrix` starts its servers on rank 0 by ssh, with a key of this task alone.
mkdir -p ~/.ssh && chmod 700 ~/.ssh && touch ~/.ssh/config ~/.ssh/authorized_keys
install -m 600 key ~/.ssh/sluice-matrix
grep -qxF "$(cat key.pub)" ~/.ssh/authorized_keys || cat key.pub >>~/.ssh/authorized_keys
cat >~/.ssh/config.sluice <<END
Host $(hostname -I | cut -d. -f1).*
  Port $SSH_PORT
  IdentityFile ~/.ssh/sluice-matrix
  StrictHostKeyChecking accept-new
END
# At the top, because ssh takes the first value that it finds.
if ! grep -qxF 'Include config.sluice' ~/.ssh/config; then
    { echo 'Include config.sluice' && cat ~/.ssh/config; } >~/.ssh/config.new
    mv ~/.ssh/config.new ~/.ssh/config
fi
chmod 600 ~/.ssh/config ~/.ssh/authorized_keys
