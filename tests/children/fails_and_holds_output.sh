#!/bin/sh
# The same after a failure, whose reason must not be lost (case 7).
trap '' TERM
echo 'the reason of the failure'
setsid sleep 60 &
exit 1
