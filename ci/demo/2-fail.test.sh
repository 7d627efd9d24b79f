echo "expected 7.23.2, got 7.23.1" >&2
exit 1
