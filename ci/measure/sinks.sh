#!/bin/bash
# Measures what sinks cost and keep, with stores on loopback: the barrier per boundary with 0 and 300 ms of latency beside a run without
# a sink (moto), and the reading of many legs (seaweedfs, whose listing does not slow down by itself). Needs moto_server and weed on PATH,
# curl and python3. No LEGS, no reading.
#   ci/measure/sinks.sh [LEDGER [LEGS...]]
set -euo pipefail
ledger=$(readlink -f "${1:-target/release/ledger}")
shift || true
work=$(mktemp -d)
pids=()
cleanup() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"; }
trap cleanup EXIT
cd "$work"
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=bbbbbbbb AWS_REGION=us-east-1
unset GITHUB_TOKEN GH_TOKEN GITHUB_RUN_ID || true

# A proxy that waits before it passes a request on, counts requests, and keeps the signed host name.
cat > proxy.py <<'PY'
import http.client, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, to, wait = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000
count = [0]
class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def any(self):
        if self.path == "/count":
            body = str(count[0]).encode(); count[0] = 0
            self.send_response(200); self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body); return
        count[0] += 1
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        time.sleep(wait)
        onward = http.client.HTTPConnection("127.0.0.1", to)
        onward.request(self.command, self.path, body, dict(self.headers))
        answer = onward.getresponse(); data = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"): self.send_header(name, value)
        self.send_header("content-length", str(len(data))); self.end_headers()
        if self.command != "HEAD": self.wfile.write(data)
    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = any
ThreadingHTTPServer(("127.0.0.1", port), Proxy).serve_forever()
PY
port=$((20000 + RANDOM % 10000))
moto_server -H 127.0.0.1 -p $port > moto.log 2>&1 & pids+=($!)
python3 proxy.py $((port + 1)) $port 0 & pids+=($!)
python3 proxy.py $((port + 2)) $port 300 & pids+=($!)
until curl -fs -o /dev/null -X PUT "http://127.0.0.1:$port/evidence"; do sleep 0.2; done

boundary() { # boundary NAME ARGS...: median time from one file's end to the next one's start, from the ledger itself
    rm -rf .ledger
    "$ledger" run --platform p --target "$1" "${@:2}" '*.sh' -- sh > run.log 2>&1
    "$ledger" report --json | python3 -c '
import json, sys, datetime, statistics
leg = json.load(sys.stdin)["legs"][0]
at = lambda text: datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
files, took = leg["files"], leg["duration_s"]
gaps = [(at(b["started_at"]) - at(a["started_at"]) - a["duration_s"]) * 1000 for a, b in zip(files, files[1:])]
print(f"boundary {sys.argv[1]}: median {statistics.median(gaps):.0f} ms, largest {max(gaps):.0f} ms, leg {took:.2f} s")' "$1"
}
# Files that end before a slow store has answered, and files that do not.
for body in true "sleep 1"; do
    for n in $(seq -w 1 20); do echo "$body" > "$n.sh"; done
    echo "20 files of '$body'"
    boundary none
    AWS_ENDPOINT_URL=http://127.0.0.1:$((port + 1)) boundary s3-0ms --sink s3://evidence/cost
    AWS_ENDPOINT_URL=http://127.0.0.1:$((port + 2)) boundary s3-300ms --sink s3://evidence/cost
done

[ $# -gt 0 ] || exit 0
# One finished leg, copied under many run ids: objects are what a real leg leaves.
rm -rf .ledger; rm -f ./*.sh; for n in 1 2 3; do echo true > "$n.sh"; done
"$ledger" run --platform p --target many --run-id 1 --sink "file://$work/one" '*.sh' -- sh > run.log 2>&1
many=$((port + 3))
mkdir weed
env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY weed server -dir=weed -ip=127.0.0.1 -ip.bind=127.0.0.1 -s3 -s3.port=$many -s3.port.iceberg=0 -s3.port.lance=0 -master.telemetry=false \
    -master.port=$((port + 4)) -volume.port=$((port + 5)) -filer.port=$((port + 6)) -master.volumeSizeLimitMB=64 > weed.log 2>&1 & weed=$!
trap 'kill -9 $weed 2>/dev/null || true; cleanup' EXIT
until curl -fs -o /dev/null -X PUT "http://127.0.0.1:$many/evidence"; do sleep 0.2; done
python3 proxy.py $((port + 7)) $many 0 & pids+=($!)
export AWS_ENDPOINT_URL=http://127.0.0.1:$((port + 7))
for legs in "$@"; do
    python3 - "$work/one" "$legs" "$many" <<'PY'
import http.client, os, sys
from concurrent.futures import ThreadPoolExecutor
root, legs, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
names = [os.path.join(at, name) for at, _, names in os.walk(root) for name in names]
files = {os.path.relpath(path, root): open(path, "rb").read() for path in names}
def some(first):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for run in range(first, legs + 1, 8):
        for path, body in files.items():
            key = path.replace("1/", f"r{run}/", 1)
            body = body.replace(b'"run_id":"1"', f'"run_id":"r{run}"'.encode())
            connection.request("PUT", f"/evidence/many{legs}/{key}".replace(",", "%2C"), body)
            answer = connection.getresponse(); answer.read()
            assert answer.status == 200, answer.status
with ThreadPoolExecutor(8) as pool:
    list(pool.map(some, range(1, 9)))
PY
    curl -s "http://127.0.0.1:$((port + 7))/count" > /dev/null
    # By way of the proxy the requests are counted, without it the time is taken.
    found=$("$ledger" report "s3://evidence/many$legs" --json 2> report.log | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["legs"]))')
    requests=$(curl -s "http://127.0.0.1:$((port + 7))/count")
    begun=$(date +%s.%N)
    AWS_ENDPOINT_URL=http://127.0.0.1:$many "$ledger" report "s3://evidence/many$legs" --json 2> report.log > /dev/null || tail -2 report.log
    ended=$(date +%s.%N)
    echo "reading $legs legs: $found found, $(python3 -c "print(f'{$ended - $begun:.2f}')") s, $requests requests"
done
