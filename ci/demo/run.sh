#!/usr/bin/env bash
# The main job in a minute: a suite with a pass, a failure and a hang that leaves a virtual machine behind, and the report of it.
# Needs a Rust toolchain; uses QEMU where it is installed and a daemon in its place where it is not, and says which.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --quiet --locked --bin ledger
ledger=$PWD/target/debug/ledger
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp ci/demo/*.test.sh "$work"
cd "$work"
echo "demo: a suite of three files in $work; evidence goes to .ledger and to the file sink $work/outside"
"$ledger" run --cap 8 --heartbeat 2 --sink "file://$work/outside" --scope full '*.test.sh' -- bash || status=$?
echo
echo "demo: ledger ended with status ${status:-0} (1: the loop finished, and at least one file did not pass)"
echo "demo: now the machine is 'lost': the local ledger is deleted, and the report is read from the sink alone"
rm -rf .ledger
"$ledger" report "file://$work/outside"
echo "demo: does the evidence hang together?"
"$ledger" verify "file://$work/outside"
[ "${status:-0}" = 1 ]
