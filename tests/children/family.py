#!/usr/bin/env python3
"""Makes COUNT children that ignore TERM, says `ready`, and waits. The children end by themselves after two minutes."""
import os
import signal
import sys
import time

count = int(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(count):
    if os.fork() == 0:
        time.sleep(120)
        os._exit(0)
print("ready", flush=True)
time.sleep(120)
