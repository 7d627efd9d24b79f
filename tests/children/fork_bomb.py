#!/usr/bin/env python3
"""Every process makes more of its kind, as many as it may, and ignores TERM (cases 4, 5). Moves into the control group GROUP first, which
limits it, and does nothing without one. Where it may not, a process tries again after PAUSE seconds (1). Ends by itself after a minute."""
import os
import signal
import sys
import time

with open(os.path.join(sys.argv[1], "cgroup.procs"), "w") as procs:
    procs.write(str(os.getpid()))
pause = float(sys.argv[2]) if len(sys.argv) > 2 else 1
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        os.fork()
    except BlockingIOError:
        time.sleep(pause)
