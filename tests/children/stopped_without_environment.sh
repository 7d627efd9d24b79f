#!/bin/sh
# No token, no session, stopped (case 3). Passes when it is.
env -i /usr/bin/setsid sh -c 'echo $$ >stopped.pid; kill -STOP $$; sleep 60; exit' &
until [ -s stopped.pid ] && grep -q '^State:.T' "/proc/$(cat stopped.pid)/status"; do sleep 0.02; done
