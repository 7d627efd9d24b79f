#!/usr/bin/env python3
"""Its name is made to be read wrongly in /proc/PID/stat."""
import ctypes
import os
import time

PR_SET_NAME = 15
there, tell = os.pipe()
if os.fork() == 0:
    ctypes.CDLL(None).prctl(PR_SET_NAME, b") Z 1 1 1 (\n", 0, 0, 0)
    os.setsid()
    os.write(tell, b".")
    time.sleep(60)
    os._exit(0)
os.read(there, 1)
