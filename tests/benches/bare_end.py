#!/usr/bin/env python3
"""The seconds from KILL to a family's process group until every one of it has been waited for. Arguments: those that start the family."""
import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
family = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, start_new_session=True)
assert family.stdout.read(6) == b"ready\n"
began = time.monotonic()
os.killpg(family.pid, signal.SIGKILL)
while True:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        break
print(time.monotonic() - began)
