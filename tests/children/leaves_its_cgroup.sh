#!/bin/sh
# Goes over to the first cgroup, where that is allowed (case 17).
setsid sh -c 'echo $$ >left.pid; sleep 60; exit' &
until [ -s left.pid ]; do sleep 0.02; done
for procs in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/unified/cgroup.procs; do
    cat left.pid 2>/dev/null >"$procs"
done 2>/dev/null
exit 0
