#!/usr/bin/env python3
"""Answers TERM with more processes, each in a session of its own, which do the same (case 5)."""
import os
import signal
import time

END = time.monotonic() + 60
LEFT = 3


def more(*_):
    global LEFT
    while LEFT > 0:
        LEFT -= 1
        if os.fork() == 0:
            os.setsid()


signal.signal(signal.SIGTERM, more)
while time.monotonic() < END:
    time.sleep(1)
