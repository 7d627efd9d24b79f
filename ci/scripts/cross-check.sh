#!/usr/bin/env bash
# Checks on a Debian 12 machine that ledger builds for the systems it cannot run: macOS is compiled and linked, Windows is also tested, under
# Wine. A release needs it (.github/workflows/release.yml). ci/cross-check.md says what is in it and what it proves.
#
#   cross-check.sh setup              install what is needed (root; about a minute)
#   cross-check.sh macos              build and link ledger and its tests for x86_64, check aarch64
#   cross-check.sh windows [ARGS]     build for x86_64-pc-windows-gnu and run the tests under Wine; ARGS go to `cargo test`
#   cross-check.sh all                macos, then windows
#   cross-check.sh cargo TARGET ARGS  one cargo command for one target: x86_64-apple-darwin, aarch64-apple-darwin, x86_64-pc-windows-gnu
#
# LEDGER_CROSS_TOOLS is where the tools are kept (/opt/ledger-cross), LEDGER_CROSS_TARGET is where cargo builds (target/cross).
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly tools=${LEDGER_CROSS_TOOLS:-/opt/ledger-cross}
readonly target_dir=${LEDGER_CROSS_TARGET:-$PWD/target/cross}
# The oldest macOS that Rust's own aarch64-apple-darwin supports.
readonly oldest_macos=11.0
readonly zig_version=0.17.1
readonly mac_intel=x86_64-apple-darwin mac_arm=aarch64-apple-darwin windows=x86_64-pc-windows-gnu

main() {
  local what=${1:-help}
  shift || true
  case $what in
    setup) install_packages; make_wine; make_zig; make_mac_stubs ;;
    macos) check_macos ;;
    windows) check_windows "$@" ;;
    all) check_macos; check_windows ;;
    cargo) cargo_for "$@" ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "ci/scripts/${0##*/}"; exit 2 ;;
  esac
}

check_macos() {
  cargo_for $mac_intel build --locked
  file_of $mac_intel ledger
  cargo_for $mac_intel test --locked --no-run
  cargo_for $mac_arm check --locked --all-targets
}

check_windows() {
  cargo_for $windows build --locked
  file_of $windows ledger.exe
  cargo_for $windows test --locked "$@"
}

file_of() {
  file "$target_dir/$1/debug/$2" 2>/dev/null || ls -l "$target_dir/$1/debug/$2"
}

# The distribution's toolchain, because it comes with the source of std: no target of rustup's has to be fetched, and rustup's own
# toolchain, which builds ledger for this machine, stays as it is.
cargo_for() {
  local target=$1 command=$2
  shift 2
  (
    unset RUSTUP_TOOLCHAIN CARGO RUSTFLAGS
    export PATH=$tools/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
    export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc CARGO_TARGET_DIR=$target_dir
    # -Zbuild-std on a compiler that is not a nightly one.
    export RUSTC_BOOTSTRAP=1 CARGO_UNSTABLE_BUILD_STD=std,panic_abort,panic_unwind,test
    case $target in
      *-apple-darwin) mac_variables "$target" ;;
      *-windows-gnu) windows_variables ;;
      *) echo "cross-check.sh: '$target' is none of $mac_intel, $mac_arm, $windows" >&2; exit 2 ;;
    esac
    # Wine's services would hold on to a terminal or a pipe that they inherit.
    /usr/bin/cargo "$command" --target "$target" "$@" </dev/null
  )
}

mac_variables() {
  local target=$1 as_variable
  as_variable=${target//-/_}
  export "CC_$as_variable=$tools/bin/cc-$target" "CXX_$as_variable=$tools/bin/cc-$target" "AR_$as_variable=$tools/bin/zig-ar"
  export "CARGO_TARGET_${as_variable^^}_LINKER=$tools/bin/cc-$target"
}

windows_variables() {
  export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
  export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
  wine_variables
  # Its services outlive the last program by some seconds and hold what they have inherited.
  trap '/usr/lib/wine/wineserver -k >/dev/null 2>&1 || true' EXIT
}

wine_variables() {
  # Neither .NET nor a browser is looked for or offered.
  export WINEPREFIX=$tools/wine WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -y -q --no-install-recommends cargo-web rustc-web rust-web-src gcc libc6-dev file python3-venv \
    gcc-mingw-w64-x86-64-win32 wine wine64
}

# Wine 8 lacks bcryptprimitives.dll, and Rust's std takes its random numbers from the one function in it.
make_wine() {
  mkdir -p "$tools"
  local source=$tools/bcryptprimitives.c
  cat >"$source" <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length); /* RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length)
{
    const ULONG most = 1u << 20;
    for (SIZE_T done = 0; done < length;) {
        ULONG step = length - done < most ? (ULONG)(length - done) : most;
        if (!SystemFunction036(buffer + done, step))
            return FALSE;
        done += step;
    }
    return TRUE;
}
C
  (
    wine_variables
    timeout 180 wine wineboot --init </dev/null >/dev/null 2>&1
    x86_64-w64-mingw32-gcc -shared -O2 -s "$source" -ladvapi32 -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll"
    /usr/lib/wine/wineserver --wait || true
  )
}

# zig carries the headers and the libSystem of macOS, as a compiler for the C in our dependencies and as the linker.
make_zig() {
  mkdir -p "$tools/bin"
  [ -x "$tools/venv/bin/pip" ] || /usr/bin/python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install -q "ziglang==$zig_version"
  local zig
  zig=$(echo "$tools"/venv/lib/python3*/site-packages/ziglang/zig)
  local target
  for target in $mac_intel $mac_arm; do
    write_compiler "$zig" "$target" >"$tools/bin/cc-$target"
  done
  printf '#!/bin/sh\nexec %s ar "$@"\n' "$zig" >"$tools/bin/zig-ar"
  # cargo has what carries no debug information stripped, by a tool that the distribution's toolchain does not have. Nobody ships these files.
  printf '#!/bin/sh\nexit 0\n' >"$tools/bin/rust-objcopy"
  chmod +x "$tools"/bin/*
}

# rustc and cc-rs call it as they would call Apple's clang; what zig does not take is left out, and when it links it finds our stubs.
write_compiler() {
  local zig=$1 target=$2
  cat <<SH
#!/usr/bin/env bash
export ZIG_GLOBAL_CACHE_DIR=$tools/zig-cache ZIG_LOCAL_CACHE_DIR=$tools/zig-cache
kept=() linking=yes
while [ \$# -gt 0 ]; do
  case \$1 in
    -target | -arch) shift ;;
    -Wl,-exported_symbols_list) shift ;; # the list itself comes as the next word
    --target=* | -mmacosx-version-min=* | -mmacos-version-min=* | -Wl,-exported_symbols_list,*) ;;
    -c | -E | -S) linking=no kept+=("\$1") ;;
    *) kept+=("\$1") ;;
  esac
  shift
done
[ \$linking = no ] || kept+=(-L$tools/stubs/lib -F$tools/stubs/frameworks)
exec $zig cc -target ${target%-apple-darwin}-macos.$oldest_macos "\${kept[@]}"
SH
}

# What our dependencies take from Apple's frameworks, by name only: enough to link. macos-symbols.txt has them, each line with its framework
# first. A dependency that takes more makes the link say "undefined symbol", and the name belongs there.
make_mac_stubs() {
  local framework names
  while read -r framework; do
    mapfile -t names < <(sed -n "s/^$framework //p" ci/scripts/macos-symbols.txt | tr ' ' '\n')
    stub_framework "$framework" "${names[@]}"
  done < <(cut -d' ' -f1 ci/scripts/macos-symbols.txt | sort -u)
  stub "$tools/stubs/lib/libobjc.tbd" /usr/lib/libobjc.A.dylib
  stub "$tools/stubs/lib/libiconv.tbd" /usr/lib/libiconv.2.dylib
}

stub_framework() {
  local name=$1
  shift
  stub "$tools/stubs/frameworks/$name.framework/$name.tbd" "/System/Library/Frameworks/$name.framework/Versions/A/$name" "$@"
}

# A text-based stub of a dynamic library: where it will be on a Mac, and what is in it.
stub() {
  local path=$1 installed=$2
  shift 2
  local symbols=("${@/#/_}")
  mkdir -p "${path%/*}"
  cat >"$path" <<TBD
--- !tapi-tbd
tbd-version: 4
targets: [ x86_64-macos, arm64-macos ]
install-name: '$installed'
exports:
  - targets: [ x86_64-macos, arm64-macos ]
    symbols: [ $(IFS=,; echo "${symbols[*]-}") ]
...
TBD
}

main "$@"
