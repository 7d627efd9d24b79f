#!/bin/sh
# The same, with a guest that burns a core: its boot sector jumps to itself.
printf '\353\376' >boot.img
dd if=/dev/zero bs=508 count=1 2>/dev/null >>boot.img
printf '\125\252' >>boot.img
exec qemu-system-x86_64 -display none -nodefaults -drive format=raw,file=boot.img -daemonize -pidfile qemu_spins.pid
