#!/usr/bin/env python3
"""Leaves a process whose first thread has ended while another runs on: its state reads Z, and it is alive."""
import ctypes
import os
import platform
import signal
import threading
import time

EXIT = {"x86_64": 60, "aarch64": 93}[platform.machine()]

if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=time.sleep, args=(120,)).start()
    ctypes.CDLL(None).syscall(EXIT, 0)  # of this thread alone
time.sleep(0.3)
