#!/usr/bin/env python3
"""Once the file `sleep` is there, waits as after vfork(2), which nothing but KILL interrupts, until `wake` is there; then sleeps on."""
import ctypes
import os
import platform
import signal
import time

CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
CLONE_VFORK = 0x4000

while not os.path.exists("sleep"):
    time.sleep(0.01)
# Memory is not shared: the child is an ordinary fork, and only the parent's wait is vfork's.
if ctypes.CDLL(None).syscall(CLONE, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    open("asleep", "w", encoding="utf-8").close()
    until = time.monotonic() + 30
    while not os.path.exists("wake") and time.monotonic() < until:
        time.sleep(0.01)
    os._exit(0)
open("awake", "w", encoding="utf-8").close()
time.sleep(120)
