#!/usr/bin/env python3
"""Leaves a process whose first thread has ended while another runs on: its state reads Z, and it is alive."""
import ctypes
import os
import signal
import threading
import time

if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=time.sleep, args=(120,)).start()
    ctypes.CDLL(None).syscall(60, 0)  # exit of this thread alone, on x86-64
time.sleep(0.3)
