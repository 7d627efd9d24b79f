#!/usr/bin/env python3
"""Leaves a process whose first thread has ended while another runs on: its state reads Z, and it is alive."""
import ctypes
import os
import platform
import signal
import threading
import time

EXIT = {"x86_64": 60, "aarch64": 93}[platform.machine()]

child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=time.sleep, args=(120,)).start()
    ctypes.CDLL(None).syscall(EXIT, 0)  # of this thread alone
while True:
    with open(f"/proc/{child}/stat", encoding="utf-8") as stat:
        if stat.read().rpartition(")")[2].split()[0] == "Z":
            break
    time.sleep(0.02)
