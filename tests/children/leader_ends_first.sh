#!/bin/sh
# The group outlives its leader (case 6).
sleep 60 &
exit 0
