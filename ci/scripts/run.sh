#!/usr/bin/env bash
# The step of ci/action.yml that runs the files, on Linux and macOS. LEDGER_IN_* variables become arguments; nothing is evaluated as shell.
# The last line is an exec, so that the runner's signals, which go to the step's entry process alone, reach ledger. Bash 3.2 is enough.
set -euo pipefail

# Of a single line each blank-separated word, of several lines each line, into `words`.
split() {
  words=()
  local text=${1//$'\r'/} line
  while [ "${text%$'\n'}" != "$text" ]; do text=${text%$'\n'}; done
  case $text in
    *$'\n'*)
      while IFS= read -r line; do
        if [ -n "$line" ]; then words+=("$line"); fi
      done <<<"$text"
      ;;
    *) IFS=$' \t' read -r -a words <<<"$text" || true ;;
  esac
}

# `--flag=value`, so that a value that begins with a dash is still a value.
flag() { if [ -n "$2" ]; then arguments+=("--$1=$2"); fi; }

arguments=(run)
flag caps "${LEDGER_IN_CAPS:-}"
flag cap "${LEDGER_IN_CAP:-}"
flag deadline "${LEDGER_IN_DEADLINE:-}"
flag reserve "${LEDGER_IN_RESERVE:-}"
flag min-viable "${LEDGER_IN_MIN_VIABLE:-}"
flag platform "${LEDGER_IN_PLATFORM:-}"
flag target "${LEDGER_IN_TARGET:-}"
flag resolved "${LEDGER_IN_RESOLVED:-}"
flag shard "${LEDGER_IN_SHARD:-}"
flag scope "${LEDGER_IN_SCOPE:-}"
flag heartbeat "${LEDGER_IN_HEARTBEAT:-}"
flag legs "${LEDGER_IN_LEGS:-}"
if [ "${LEDGER_IN_REQUIRE_SINK:-}" = true ]; then arguments+=(--require-sink); fi

to_github=
split "${LEDGER_IN_SINKS:-${LEDGER_SINK:-}}"
for word in ${words[@]+"${words[@]}"}; do
  case $word in github:*) to_github=yes ;; esac
  if [ -n "${LEDGER_IN_SINKS:-}" ]; then flag sink "$word"; fi
done
split "${LEDGER_IN_ARGS:-}"
arguments+=(${words[@]+"${words[@]}"})
config=ledger.toml before=
for word in ${words[@]+"${words[@]}"}; do
  case $before$word in --sink=github:* | '--sink github:'*) to_github=yes ;; --config=*) config=${word#*=} ;; '--config '*) config=$word ;; esac
  case $word in --sink | --config) before="$word " ;; *) before= ;; esac
done
split "${LEDGER_IN_FILES:-}"
for word in ${words[@]+"${words[@]}"}; do
  # A file may begin with a dash.
  case $word in -*) word=./$word ;; esac
  arguments+=("$word")
done
split "${LEDGER_IN_COMMAND:-}"
if [ ${#words[@]} -gt 0 ]; then arguments+=(-- "${words[@]}"); fi

program=${LEDGER_IN_PROGRAM:?}
cd "${LEDGER_IN_WORKING_DIRECTORY:-.}"
# With no sink named here, [run] sinks speak.
if [ -z "${LEDGER_IN_SINKS:-${LEDGER_SINK:-}}" ] && grep -qs "[\"']github:" -- "$config"; then to_github=yes; fi
# ledger keeps it from the tests: it can write check runs.
if [ -n "$to_github" ] && [ -n "${LEDGER_IN_TOKEN:-}" ]; then export LEDGER_GITHUB_TOKEN=$LEDGER_IN_TOKEN; fi
# What a torn-down step leaves: ledger appends its own values at its end, and the last one counts.
printf 'loop-finished=false\nconclusion=incomplete\n' >>"$GITHUB_OUTPUT"
# The tests see none of this.
unset "${!LEDGER_IN_@}"
exec "$program" "${arguments[@]}"
