#!/usr/bin/env bash
# The first step of ci/action.yml and ci/reconcile/action.yml on Linux and macOS: resolves the deadline, then finds or installs ledger.
# Reads LEDGER_IN_* variables, evaluates none of them. Writes `ledger` and `deadline` to GITHUB_OUTPUT. Bash 3.2 (macOS) is enough.
set -euo pipefail

say() { printf 'ledger action: %s\n' "$*"; }

# A workflow command with its text escaped as the service requires.
annotate() {
  local text=$2
  text=${text//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '::%s title=ledger::%s\n' "$1" "${text//$'\n'/%0A}"
}

refuse() {
  annotate error "$1"
  exit "${2:-1}"
}

output() { printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"; }

# The deadline counts from here, before anything is downloaded: the service's clock for this step runs already.
resolve_deadline() {
  local minutes=${LEDGER_IN_TIMEOUT_MINUTES:-} deadline
  [ -n "$minutes" ] || return 0
  [[ $minutes =~ ^[1-9][0-9]{0,5}$ ]] || refuse "timeout-minutes '$minutes': write a whole number of minutes" 2
  deadline=$(($(date +%s) + minutes * 60))
  if [[ ${LEDGER_DEADLINE:-} =~ ^[0-9]{9,11}$ ]] && [ "$LEDGER_DEADLINE" -lt "$deadline" ]; then
    deadline=$LEDGER_DEADLINE
  fi
  output deadline "$deadline"
}

# A value of [package] in Cargo.toml of the checkout that this action is part of.
package() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" "$checkout/Cargo.toml" | head -n 1; }

target_of_this_machine() {
  case "$(uname -s) $(uname -m)" in
    'Linux x86_64') echo x86_64-unknown-linux-gnu ;;
    'Linux aarch64' | 'Linux arm64') echo aarch64-unknown-linux-gnu ;;
    'Darwin x86_64') echo x86_64-apple-darwin ;;
    'Darwin arm64') echo aarch64-apple-darwin ;;
    *) return 1 ;;
  esac
}

fetch() {
  local schemes='=https'
  case $1 in http://* | file://*) schemes='=http,file' ;; esac
  curl --fail --silent --show-error --location --proto "$schemes" --retry 3 --max-time 180 --output "$2" "$1"
}

sha256() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

# Returns 1 where there is no asset for this machine. An asset that is not what its checksum says ends the job: building from source
# instead would hide that somebody has changed it.
install_asset() {
  local target name url wanted found
  target=$(target_of_this_machine) || { say "no release asset for $(uname -s) $(uname -m)"; return 1; }
  name=ledger-v$version-$target
  url=${LEDGER_IN_RELEASE_URL:-$(package repository)/releases/download/v$version}
  fetch "$url/$name.tgz" "$work/$name.tgz" && fetch "$url/SHA256SUMS" "$work/SHA256SUMS" || return 1
  wanted=$(awk -v name="$name.tgz" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
  found=$(sha256 "$work/$name.tgz")
  if [ "$wanted" != "$found" ]; then
    refuse "$name.tgz has the checksum $found, and SHA256SUMS says '${wanted:-nothing}': it was not installed"
  fi
  if [ "${LEDGER_IN_ATTESTATION:-}" = true ]; then
    local repository
    repository=$(package repository)
    GH_TOKEN=${LEDGER_IN_TOKEN:-} gh attestation verify "$work/$name.tgz" --repo "${repository#https://github.com/}" ||
      refuse "$name.tgz has no provenance that can be verified: it was not installed"
  fi
  tar -xzf "$work/$name.tgz" -C "$work"
  # An older C library, or a musl system: the asset is whole and yet does not start.
  "$work/$name/ledger" --version >/dev/null || return 1
  program=$work/$name/ledger
}

install_with_cargo() {
  command -v cargo >/dev/null || refuse "no release asset of ledger $version could be had for this machine, and there is no cargo to build it with"
  annotate warning "ledger $version is built from source, which takes minutes: no release asset could be had for this machine"
  cargo install --locked --quiet --root "$work" "$@"
  program=$work/bin/ledger
}

resolve_deadline
checkout=$(cd "$(dirname "$0")/../.." && pwd)
version=${LEDGER_IN_VERSION:-$(package version)}
version=${version#v}
work=${RUNNER_TEMP:?}/ledger-install
mkdir -p "$work"
if [ -n "${LEDGER_IN_BINARY:-}" ]; then
  program=$LEDGER_IN_BINARY
  [ -x "$program" ] || refuse "binary '$program': there is no such program" 2
  case $program in /*) ;; *) program=$PWD/$program ;; esac
elif [ "$version" = source ]; then
  install_with_cargo --path "$checkout"
elif [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$ ]]; then
  install_asset || install_with_cargo --version "$version" ci-ledger
else
  refuse "version '$version': write a release such as 0.1.0, or source" 2
fi
"$program" --version
output ledger "$program"
dirname "$program" >>"$GITHUB_PATH"
