#!/usr/bin/env python3
"""Leaves a child that holds a TCP port and ignores TERM; prints the port."""
import os
import signal
import socket
import time

server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    time.sleep(120)
