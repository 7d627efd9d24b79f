#!/usr/bin/env python3
"""Leaves children that have ended and were never waited for, and ends."""
import os

for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(7)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
