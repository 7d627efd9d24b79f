#!/bin/sh
# A grandchild that will not end keeps stdout and stderr open (case 7).
trap '' TERM
echo kept
setsid sleep 60 &
exit 0
