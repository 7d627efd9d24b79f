#!/usr/bin/env python3
"""Ignores every signal that can be ignored, in two processes (case 1)."""
import os
import signal
import time

for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass
os.fork()
time.sleep(60)
