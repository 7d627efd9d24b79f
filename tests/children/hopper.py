#!/usr/bin/env python3
"""Never there when the signal comes: every process forks the next one and ends. Ends by itself after a minute."""
import os
import signal
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 60
if os.fork():
    os._exit(0)
os.setsid()
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    time.sleep(0.001)
