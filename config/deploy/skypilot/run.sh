#!/usr/bin/env bash
# run.sh - what the hosts of the SkyPilot task do: rank 0 is the appliance, the others are the load.
#
# 1. Rank 1 measures the whole matrix: for each row it starts a sluiced of its own on rank 0, by ssh.
# 2. Rank 0 becomes the appliance; rank 1 measures value sizes, with USE_EFA=false over the kernel's TCP.
# 3. Every rank but 0 loads the appliance at once; then it is shut down and the task ends.
#
# The ranks wait for each other through keys of the appliance. A rank that fails ends them all: SkyPilot sees to that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
appliance=$(head -n 1 <<<"$SKYPILOT_NODE_IPS")
results=~/sluice-efa-$USE_EFA
socket=$PWD/ctl.sock # the folder is the same on every rank
measured=$PWD/measured-$SKYPILOT_TASK_ID

case $USE_EFA in
    true) providers=efa,tcp ports=() compare=(--vs efa:tcp) load=(--provider efa) ;;
    false) providers=tcp ports=(--set 'ports=()') compare=() load=() ;;
    *) echo "USE_EFA=$USE_EFA: expected true or false" >&2 && exit 2 ;;
esac

if [ "$SKYPILOT_NODE_RANK" = 0 ]; then
    until [ -e "$measured" ]; do sleep 1; done
    digest=$(printf %s "$REDISCLI_AUTH" | sha256sum | cut -d' ' -f1)
    exec sluiced -c sluice.conf --set "auth.password=#$digest" --set "management.socket=$socket" "${ports[@]}"
fi

ask() { sluice-cli -e -h "$appliance" "$@" 2>/dev/null; }

if [ "$SKYPILOT_NODE_RANK" = 1 ]; then
    sluice-bench matrix --out "$results" --server "$appliance" --providers "$providers" --floor
    # shellcheck disable=SC2029
    ssh "$appliance" "touch '$measured'"
    until ask PING; do sleep 1; done
    sluice-bench sweep -h "$appliance" "${compare[@]}" --out "$results"
    ask SET load begun
fi

until [ "$(ask EXISTS load)" = 1 ]; do sleep 1; done
sluice-bench throughput -h "$appliance" "${load[@]}" -t get -c 16 -P 16 -r 1000000 --load --seconds 30 \
    --seed "$((SKYPILOT_NODE_RANK + 1))" --label "rank$SKYPILOT_NODE_RANK" --out "$results"
ask INCR ended

if [ "$SKYPILOT_NODE_RANK" = 1 ]; then
    until [ "$(ask GET ended)" = $((SKYPILOT_NUM_NODES - 1)) ]; do sleep 1; done
    sluice-bench report "$results" || true # a page without plots is no reason to leave the appliance running
    # shellcheck disable=SC2029
    ssh "$appliance" "sluicectl -S '$socket' shutdown"
fi
