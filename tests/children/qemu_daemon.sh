#!/bin/sh
# A virtual machine that makes itself a daemon and outlives its test (case 2).
exec qemu-system-x86_64 -machine none -display none -nodefaults -daemonize -pidfile qemu_daemon.pid
