#!/usr/bin/env python3
"""Runs a command in a terminal, types WORD after it has asked `name?`, and passes on what it prints and how it ends.

With TYPIST_SEES in the environment the file `seen` is made as soon as these words were printed."""
import os
import pty
import sys

word, command = sys.argv[1], sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
shown, typed = b"", False
while True:
    try:
        chunk = os.read(fd, 4096)
    except OSError:
        break
    if not chunk:
        break
    shown += chunk
    if not typed and b"name?" in shown:
        typed = True
        os.write(fd, word.encode() + b"\n")
    if os.environ.get("TYPIST_SEES", "\0").encode() in shown:
        open("seen", "w").close()
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
