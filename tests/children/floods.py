#!/usr/bin/env python3
"""Prints as fast as it is read, without an end and without a newline (case 29)."""
import sys
import time

end = time.monotonic() + 60
while time.monotonic() < end:
    sys.stdout.write("x" * 65536)
