#!/usr/bin/env python3
"""Holds its orphans together by itself, as a test runner may, and is left with them; each has a session of its own."""
import ctypes
import os
import signal
import time

PR_SET_CHILD_SUBREAPER = 36
there, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for _ in range(3):
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                os.write(tell, b".")
                time.sleep(60)
            os._exit(0)
    time.sleep(60)
    os._exit(0)
os.close(tell)
count = 0
while count < 3:
    count += len(os.read(there, 3))
