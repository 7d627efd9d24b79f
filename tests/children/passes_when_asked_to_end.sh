#!/bin/sh
# Hung, and answers TERM with a success that is none (case 23).
trap 'exit 0' TERM
left=600
while [ "$left" -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
