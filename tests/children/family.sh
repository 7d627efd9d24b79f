#!/bin/sh
# Makes COUNT children that are programs of their own and ignore TERM, says `ready`, and waits. They end by themselves after two minutes.
trap '' TERM
left=$1
while [ "$left" -gt 0 ]; do
  sleep 120 &
  left=$((left - 1))
done
echo ready
wait
