#!/usr/bin/env python3
"""Leaves a child behind that has closed every descriptor: end of file says nothing about it."""
import os
import signal
import time

if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    os.closerange(0, 256)
    time.sleep(120)
