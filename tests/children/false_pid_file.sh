#!/bin/sh
# Pid files that name its own owner, the first process, nobody and nothing (case 14).
echo "$PPID" >owner.pid
echo 1 >first.pid
echo 4194303 >stale.pid
: >empty.pid
