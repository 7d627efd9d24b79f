#!/bin/sh
# A daemon: forked twice, in a session of its own (case 2). Passes when the daemon is there.
(setsid sh -c 'trap "" TERM; echo there >double_fork.there; sleep 60; exit' &)
until [ -s double_fork.there ]; do sleep 0.02; done
