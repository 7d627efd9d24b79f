#!/usr/bin/env bash
# The step of ci/reconcile/action.yml: evidence, plan and job list in; shared files, page, summary, finalised check runs out.
# Best effort by contract: each thing that cannot be done is a loud warning, and the exit status is 0. Reads LEDGER_IN_* variables,
# evaluates none of them. Bash 3.2 (macOS) is enough.
set -uo pipefail

problems=0
# Sources that could not be read: what is known without them is not the whole.
unread=0

# A problem is an annotation, a line in the summary, and a number.
problem() {
  local text=$1
  problems=$((problems + 1))
  printf '\n> **ledger reconcile**: %s\n' "$(printf '%s' "$text" | tr '\r\n<`' '   ?')" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
  text=${text//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '::warning title=ledger reconcile::%s\n' "${text//$'\n'/%0A}"
}

output() { printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }

finish() {
  output problems "$problems"
  exit 0
}

# Every job of the run, of all attempts, page by page into one file. The token goes in by a pipe, not by the command line.
list_jobs() {
  local base=${GITHUB_API_URL:-https://api.github.com} page=1 url
  rm -f "$folder/jobs.json"
  if [ -z "$token" ] || [ -z "${GITHUB_REPOSITORY:-}" ]; then
    echo 'there is no token, or no GITHUB_REPOSITORY' >&2
    return 1
  fi
  while [ "$page" -le 50 ]; do
    url="$base/repos/$GITHUB_REPOSITORY/actions/runs/$run_id/jobs?filter=all&per_page=100&page=$page"
    printf 'header = "Authorization: Bearer %s"\n' "$token" |
      curl --config - --fail --silent --show-error --retry 3 --max-time 60 --header 'Accept: application/vnd.github+json' \
        --dump-header "$work/headers" --output "$work/page.json" "$url" || return 1
    cat "$work/page.json" >>"$work/jobs.json" && printf '\n' >>"$work/jobs.json" || return 1
    grep -qi '^link:.*rel="next"' "$work/headers" || break
    page=$((page + 1))
  done
  mv "$work/jobs.json" "$folder/jobs.json"
}

# `ledger report` over everything that is known of this run.
report() { "$program" report "${sources[@]}" "${question[@]}" "$@"; }

# Sinks are independent: one that cannot be read takes nothing from the others.
readable_sources() {
  local source asked kept=("$nothing")
  for source in "${sources[@]}"; do
    if [ "$source" = "$nothing" ]; then continue; fi
    asked=(${question[@]+"${question[@]}"})
    case $source in file:*) asked=(--run-id "$run_id") ;; esac
    if "$program" report "$source" ${asked[@]+"${asked[@]}"} --json >/dev/null 2>"$work/why"; then
      kept+=("$source")
    else
      unread=$((unread + 1))
      problem "'$source' cannot be read: $(tail -n 2 "$work/why")"
    fi
  done
  sources=("${kept[@]}")
}

# Beside a plan a folder that is not there is evidence: every leg ended before it left any. Of a sink it only says that nobody could look.
can_look() {
  local source
  for source in "${sources[@]}"; do
    case $source in file:*) "$program" report "$source" --run-id "$run_id" --json >/dev/null 2>&1 || return 1 ;; esac
  done
}

# What the shared files are folded from is read again in each try: nothing is ever merged as text.
fold_into() {
  mkdir -p "$1/runs" &&
    report --format attempted-legs --out "$1/attempted-legs.json" &&
    report --format tested-versions --incomplete "$incomplete" --out "$1/tested-versions.json" &&
    report --format ci-data --out "$1/runs"
}

publish() {
  local clone=$work/branch try where
  # The directory stays inside the branch.
  case /$directory/ in */../* | //*) problem "directory '$directory' is outside the branch"; return 1 ;; esac
  case $branch in -* | *[[:space:]]*) problem "'$branch' is no branch name"; return 1 ;; esac
  export GIT_TERMINAL_PROMPT=0 GIT_AUTHOR_NAME=ledger GIT_COMMITTER_NAME=ledger
  export GIT_AUTHOR_EMAIL=ledger@users.noreply.github.com GIT_COMMITTER_EMAIL=ledger@users.noreply.github.com
  if [ -n "$token" ]; then
    case $remote in
      https://*)
        # Through the environment, because a command line can be read by every process of the machine.
        export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="http.$remote.extraheader"
        GIT_CONFIG_VALUE_0="AUTHORIZATION: basic $(printf 'x-access-token:%s' "$token" | base64 | tr -d '\n')"
        export GIT_CONFIG_VALUE_0
        ;;
    esac
  fi
  git init -q "$clone" && git -C "$clone" remote add origin "$remote" || return 1
  for try in 1 2 3 4 5 6 7 8 9 10; do
    # Somebody else was faster: a random pause that grows, so that two do not meet again.
    if [ "$try" -gt 1 ]; then sleep "$((RANDOM % try / 2)).$((RANDOM % 900 + 100))"; fi
    git -C "$clone" ls-remote --exit-code origin "refs/heads/$branch" >/dev/null 2>"$work/why"
    case $? in
      0)
        git -C "$clone" fetch -q --depth 1 origin "refs/heads/$branch" 2>"$work/why" || continue
        git -C "$clone" checkout -q -f --detach FETCH_HEAD || return 1
        ;;
      2) git -C "$clone" rev-parse -q --verify HEAD >/dev/null || git -C "$clone" checkout -q --orphan "$branch" || return 1 ;;
      *) continue ;;
    esac
    git -C "$clone" clean -fdq
    where=$clone/$directory
    mkdir -p "$where" && fold_into "$where" 2>"$work/why" || return 1
    git -C "$clone" add -A || return 1
    if git -C "$clone" diff --cached --quiet; then return 0; fi
    git -C "$clone" commit -q -m "ledger: run $run_id attempt $attempt" || return 1
    git -C "$clone" push -q origin "HEAD:refs/heads/$branch" 2>"$work/why" && return 0
  done
  return 1
}

program=${LEDGER_IN_PROGRAM:-}
token=${LEDGER_IN_TOKEN:-}
run_id=${LEDGER_IN_RUN_ID:-}
attempt=${LEDGER_IN_ATTEMPT:-1}
branch=${LEDGER_IN_BRANCH:-}
directory=${LEDGER_IN_DIRECTORY:-.}
remote=${LEDGER_IN_REMOTE:-}
incomplete=${LEDGER_IN_INCOMPLETE:-row}
folder=${LEDGER_IN_FOLDER:-${RUNNER_TEMP:?}/ledger-reconcile}
plan=${LEDGER_IN_PLAN:-}
sinks=${LEDGER_IN_SINKS:-${LEDGER_SINK:-}}
job_name=${LEDGER_IN_JOB_NAME:-}
step_name=${LEDGER_IN_STEP_NAME:-}
finalize=${LEDGER_IN_FINALIZE:-true}
if [ -n "$token" ]; then export LEDGER_GITHUB_TOKEN=$token; fi
# The report asks about another run than this one, where workflow_run called it.
if [ -n "${LEDGER_IN_SHA:-}" ]; then export GITHUB_SHA=$LEDGER_IN_SHA; fi
unset "${!LEDGER_IN_@}"

if [ -z "$program" ] || [ ! -x "$program" ]; then
  problem "ledger could not be installed: nothing was reconciled; see the step before"
  finish
fi
if ! mkdir -p "$folder" || ! work=$(mktemp -d) || ! mkdir "$work/nothing"; then
  problem "'$folder' cannot be made"
  finish
fi
trap 'rm -rf "$work"' EXIT
folder=$(cd "$folder" && pwd)
output folder "$folder"

# An empty sink: with it the plan and the jobs alone make rows, where no leg left anything.
nothing=file://$work/nothing
sources=("$nothing")
while IFS=$' \t' read -r -a words; do
  sources+=(${words[@]+"${words[@]}"})
done <<<"${sinks//$'\r'/}"

question=(--run-id "$run_id")
case $plan in
  '') problem "there is no plan: a leg that left no trace has no row" ;;
  *'['* | *'{'*) printf '%s\n' "$plan" >"$folder/plan.json" && question+=(--plan "$folder/plan.json") ;;
  *) if cp -- "$plan" "$folder/plan.json" 2>"$work/why"; then question+=(--plan "$folder/plan.json"); else problem "the plan '$plan' cannot be read"; fi ;;
esac
if list_jobs 2>"$work/why"; then
  question+=(--jobs "$folder/jobs.json")
  if [ -n "$job_name" ]; then question+=(--job-name "$job_name"); fi
  if [ -n "$step_name" ]; then question+=(--step-name "$step_name"); fi
else
  problem "the jobs of run $run_id cannot be listed, so a loss is told by its lease alone: $(tail -n 1 "$work/why" 2>/dev/null)"
fi

report --json --gate --out "$folder/report.json" 2>"$work/why"
gate=$?
if [ "$gate" = 2 ] || ! can_look; then
  readable_sources
  report --json --gate --out "$folder/report.json" 2>"$work/why"
  gate=$?
fi
case $gate in
  0 | 1 | 3)
    output gate "$gate"
    cat "$work/why"
    ;;
  *)
    problem "the report could not be made: $(tail -n 2 "$work/why")"
    finish
    ;;
esac
report --format html --out "$folder/report.html" 2>"$work/why" || problem "the page could not be made: $(tail -n 2 "$work/why")"
if report --format markdown --out "$folder/report.md" 2>"$work/why"; then
  cat "$folder/report.md" >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
else
  problem "the summary could not be made: $(tail -n 2 "$work/why")"
fi
fold_into "$folder" 2>"$work/why" || problem "the shared files could not be made: $(tail -n 2 "$work/why")"
# Legs whose evidence cannot be read now are not lost: nobody is told to run them again.
if [ "$unread" -eq 0 ]; then
  rerun=$(report --format rerun 2>"$work/why") && output rerun "$rerun"
fi

if [ "$finalize" = true ]; then
  for source in "${sources[@]}"; do
    case $source in
      github:*)
        "$program" report "$source" "${question[@]}" --finalize --json >/dev/null 2>"$work/why" ||
          problem "check runs of lost legs could not be finalised: $(tail -n 2 "$work/why")"
        ;;
    esac
  done
fi

if [ -n "$branch" ]; then
  if [ "$unread" -gt 0 ]; then
    # The branch holds what was read when all could be; the others' rows alone would stand there as the whole.
    output pushed false
    problem "branch '$branch' does not have this run and stays as it is: $unread of its sources cannot be read; run reconcile again when they can"
  elif publish; then
    output pushed true
  else
    output pushed false
    problem "branch '$branch' does not have this run: $(tail -n 2 "$work/why")"
  fi
fi
finish
