#!/usr/bin/env python3
"""Leaves children that have ended and were never waited for, and ends."""
import os
import time

for _ in range(20):
    if os.fork() == 0:
        os._exit(7)
time.sleep(0.2)
