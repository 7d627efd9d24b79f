#!/bin/sh
# Stopped, and nobody continues it (case 3).
kill -STOP $$
