#!/usr/bin/env python3
"""Runs an interactive bash in a terminal, and there a job as `COMMAND &` or `COMMAND`, Ctrl-Z, `bg`; then brings it back with `fg`,
types nothing, and passes on what is shown until SEES was, or a minute is over. Then it waits for the end of job and shell. Ends with 0 if
SEES was shown and both have ended.

Arguments: `background` or `stopped`, SEES, COMMAND."""
import os
import pty
import select
import signal
import sys
import time

how, sees, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3]
pid, fd = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
shown, end = b"", time.monotonic() + 60


def until(word, since=0):
    global shown
    while word not in shown[since:]:
        if time.monotonic() > end or not select.select([fd], [], [], 60)[0]:
            return False
        try:
            shown += os.read(fd, 4096)
        except OSError:
            return False
    return True


def type_line(text):
    since = len(shown)
    os.write(fd, text.encode())
    return since


type_line("PS1='% '; bind 'set enable-bracketed-paste off' 2>/dev/null\n")
if how == "background":
    type_line(command + " &\n")
    until(b"started")
else:
    type_line(command + "\n")
    until(b"started")
    until(b"Stopped", type_line("\x1a"))
    until(b"&", type_line("bg\n"))
found = until(sees, type_line("fg\n"))
ended = False
while found and not ended and time.monotonic() < end:
    # The job still writes what it has to; what is typed meanwhile may be the job's, and the shell reads the next one.
    os.write(fd, b"exit\n")
    if select.select([fd], [], [], 0.2)[0]:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            piece = b""
        shown, ended = shown + piece, not piece
sys.stdout.buffer.write(shown)
os.kill(pid, signal.SIGHUP)
os.close(fd)
os.waitpid(pid, 0)
sys.exit(0 if found and ended else 1)
