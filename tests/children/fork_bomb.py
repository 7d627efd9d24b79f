#!/usr/bin/env python3
"""Every process makes more of its kind, as many as it may, and ignores TERM (cases 4, 5). Moves into the control group GROUP first, which
limits it; does nothing without one. Ends by itself after a minute."""
import os
import signal
import sys
import time

with open(os.path.join(sys.argv[1], "cgroup.procs"), "w") as procs:
    procs.write(str(os.getpid()))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        os.fork()
    except BlockingIOError:
        time.sleep(0.05)
