#!/bin/bash
# A long local run under churn, and what ledger itself takes meanwhile: resident memory, descriptors, threads, CPU.
# Samples every second, files that start real QEMU and leave it, print much, ignore TERM, fork; a store that stops answering every minute.
#   ci/measure/soak.sh [MINUTES] [LEDGER] [CSV]     needs moto_server on PATH, curl, python3, qemu-system-x86_64
set -euo pipefail
minutes=${1:-30}
ledger=$(readlink -f "${2:-target/release/ledger}")
csv=$(readlink -m "${3:-soak.csv}")
work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill -CONT "$pid" 2>/dev/null || true; kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=bbbbbbbb AWS_REGION=us-east-1
unset GITHUB_TOKEN GH_TOKEN GITHUB_RUN_ID || true

port=$((20000 + RANDOM % 10000))
moto_server -H 127.0.0.1 -p "$port" > moto.log 2>&1 & moto=$!
pids+=("$moto")
export AWS_ENDPOINT_URL=http://127.0.0.1:$port
until curl -fs -o /dev/null -X PUT "$AWS_ENDPOINT_URL/evidence"; do sleep 0.2; done
# The store flaps: 45 s well, 15 s deaf.
(while kill -STOP "$moto" 2>/dev/null && sleep 15 && kill -CONT "$moto" 2>/dev/null; do sleep 45; done) & pids+=($!)

vm='qemu-system-x86_64 -machine none -display none -nodefaults'
mkdir suite
echo "exit 0" > suite/1-quick.sh
echo "$vm -daemonize -pidfile vm-\$\$.pid; sleep 2; exit 0" > suite/2-leaves-a-vm.sh
echo "$vm & vm=\$!; sleep 3; kill \$vm; wait \$vm; exit 0" > suite/3-ends-its-vm.sh
echo "for n in \$(seq 20); do sh -c 'sleep 1' & done; wait; yes loud | head -c 5000000; exit 1" > suite/4-loud-and-many.sh
echo "trap '' TERM; $vm & $vm & while :; do sleep 1; done" > suite/5-ignores-term.sh
echo "python3 -c 'import os,time; os.fork() or os.setsid() or time.sleep(60)' & sleep 1; exit 0" > suite/6-leaves-a-daemon.sh

"$ledger" run --for "${minutes}m" --heartbeat 1s --cap 6s --grace 1s --leftovers warn --sink "file://$work/outside" --sink s3://evidence/soak \
  'suite/*.sh' -- sh > out.log 2> err.log & run=$!
pids+=("$run")
echo "seconds,rss_kib,descriptors,threads,cpu_ticks" > "$csv"
began=$SECONDS
while kill -0 "$run" 2>/dev/null; do
  if rss=$(awk '/VmRSS/{r=$2} /Threads/{t=$2} END{if (!r) exit 1; print r, t}' "/proc/$run/status" 2>/dev/null); then
    fds=$(find "/proc/$run/fd" -mindepth 1 2>/dev/null | wc -l)
    ticks=$(awk '{sub(/.*\) /, ""); print $12 + $13}' "/proc/$run/stat" 2>/dev/null || echo 0)
    echo "$((SECONDS - began)),${rss% *},$fds,${rss#* },$ticks" >> "$csv"
  fi
  sleep 5
done
code=0
wait "$run" || code=$?
kill -CONT "$moto" 2>/dev/null || true
echo "ledger ended with $code after $((SECONDS - began)) s"
tail -n 3 err.log
"$ledger" verify .ledger/*.db
"$ledger" verify "file://$work/outside"
"$ledger" verify s3://evidence/soak || true
echo "what is left of the suite: $(pgrep -fc "$work" || true) processes that name $work"
grep -c . err.log | sed 's/^/lines on stderr: /'
python3 - "$csv" <<'PY'
import csv, sys
rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(open(sys.argv[1]))][:-1]
bars = "▁▂▃▄▅▆▇█"
def plot(name, values):
    low, high = min(values), max(values)
    width = min(100, len(values))
    cells = [max(values[i * len(values) // width:max(i * len(values) // width + 1, (i + 1) * len(values) // width)]) for i in range(width)]
    line = "".join(bars[int((c - low) / (high - low or 1) * 7)] for c in cells)
    tenth = max(1, len(values) // 10)
    first, last = sorted(values[:tenth])[tenth // 2], sorted(values[-tenth:])[tenth // 2]
    print(f"{name:<16} {line}  from {low} to {high}; first tenth {first}, last tenth {last}")
print(f"{len(rows)} samples of ledger itself over {rows[-1]['seconds']} s")
plot("resident KiB", [r["rss_kib"] for r in rows])
plot("descriptors", [r["descriptors"] for r in rows])
plot("threads", [r["threads"] for r in rows])
cpu = [(b["cpu_ticks"] - a["cpu_ticks"]) * 100 // max(1, (b["seconds"] - a["seconds"])) for a, b in zip(rows, rows[1:])]
plot("CPU, 0.01 %", cpu)
PY
