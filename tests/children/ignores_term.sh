#!/bin/sh
# Will not end when it is asked to (case 1).
trap '' TERM
left=600
while [ "$left" -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
