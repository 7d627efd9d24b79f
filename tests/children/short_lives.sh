#!/bin/sh
# Processes that end while they are looked at (case 15).
left=150
while [ "$left" -gt 0 ]; do
    setsid sleep 0.01 &
    left=$((left - 1))
done
