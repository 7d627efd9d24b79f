#!/bin/bash
# Runs every benchmark of DESIGN §11 and writes one table, with the machine it was measured on. Under ten minutes once it is built; run it
# on a machine that does nothing else.
#   ci/measure/budgets.sh [FILE]       default: target/budgets.md
set -euo pipefail
cd "$(dirname "$0")/../.."
table=${1:-target/budgets.md}
benches=(overhead owner store rollup formats)
cargo bench --quiet --locked --no-run
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for bench in "${benches[@]}"; do
  echo "budgets: $bench, load $(cut -d' ' -f1 /proc/loadavg)" >&2
  cargo bench --quiet --locked --bench "$bench" | tee -a "$out" >&2
done
{
  echo "# Budgets, measured"
  echo
  echo "$(nproc) cores, $(awk '/MemTotal/{printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), $(uname -sr), $(date -u +%F), commit $(git rev-parse --short HEAD)," \
    "load at the end $(cut -d' ' -f1-3 /proc/loadavg). Median, and the middle eight tenths in brackets."
  echo
  echo "| what | measured | reference of the same run | ratio | budget | met |"
  echo "|---|---|---|---|---|---|"
  grep '^| ' "$out"
} > "$table"
echo "budgets: written to $table" >&2
! grep -q '| NO |$' "$table"
