#!/bin/sh
# A daemon that is meant to live on, with a worker (case 24).
if [ "$1" = serve ]; then
    echo $$ >build_server.there
    sleep 60 &
    wait
    exit
fi
setsid "$0" serve &
until [ -s build_server.there ]; do sleep 0.02; done
