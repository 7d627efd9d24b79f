#!/bin/sh
# End of file comes at once, its end does not (case 8).
exec </dev/null >&- 2>&-
sleep 60
