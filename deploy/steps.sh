# Sourced by the scripts beside it: how they speak, fail, check for room and build beside tests.
# shellcheck shell=bash

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# dependencies_folder: where LibTorch and what else is downloaded lies. What is built finds LibTorch there when it is started: root's
# is where other users can read it, unless root has one in its own cache already.
dependencies_folder() {
  local own=${XDG_CACHE_HOME:-${HOME:-}/.cache}/latentd/dependencies
  if [ -n "${LATENTD_DEPENDENCIES:-}" ]; then
    echo "$LATENTD_DEPENDENCIES"
  elif [ "$(id -u)" = 0 ] && [ -z "${XDG_CACHE_HOME:-}" ] && [ ! -e "$own/libtorch" ]; then
    echo /var/cache/latentd/dependencies
  else
    echo "$own"
  fi
}

dependencies=$(dependencies_folder)
libtorch=${LIBTORCH_DIR:-$dependencies/libtorch}

# processors: how many this machine lends. nproc alone answers with OMP_NUM_THREADS where that is set, as it is for sanitizers.
processors() { (unset OMP_NUM_THREADS OMP_THREAD_LIMIT; nproc); }

# step TEXT: a line that says what happens next, with the time since the first of the scripts started.
export LATENTD_STEPS_SINCE=${LATENTD_STEPS_SINCE:-$(date +%s)}
step() { printf '[%3d s] %s\n' $(($(date +%s) - LATENTD_STEPS_SINCE)) "$*"; }

# fail CODE TEXT: ends the script.
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$2" >&2
  exit "$1"
}

# usage: prints the comment at the top of the script that was called.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# misused ARGUMENT: ends the script that was called with it.
misused() {
  printf '%s: "%s" is not understood\n\n' "$(basename "$0")" "$1" >&2
  usage >&2
  exit 2
}

# need_room DIRECTORY MIB WHAT: ends the script when the file system of DIRECTORY has less than MIB free.
need_room() {
  local directory=$1 free
  while [ ! -d "$directory" ]; do directory=$(dirname "$directory"); done
  free=$(df -Pm "$directory" | awk 'NR == 2 {print $4}')
  [ "$free" -ge "$2" ] || fail 1 "$3 needs $2 MiB free in $1; there are $free MiB"
}

# quietly LOG COMMAND...: runs COMMAND with its output in the file LOG, and shows the end of it when the command fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  "$@" >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    fail 1 "this failed: $* (all of its output is in $log)"
  }
}

# build_tree PRESET: the folder that the preset builds in.
build_tree() { if [ "$1" = release ]; then echo "$project/build"; else echo "$project/build-$1"; fi; }

building=      # the process of a build that runs beside tests
building_log=

# start_build PRESET TARGET...: builds, with tests, on processors' time that other processes leave: tests of real servers wait for
# half of theirs. One at a time. Its output is in build/build-PRESET.log.
start_build() {
  local preset=$1 idly=(chrt --idle 0)
  shift
  "${idly[@]}" true 2>/dev/null || idly=(nice -n 19)  # some containers forbid the first
  building_log=$project/build/build-$preset.log
  # In a group of its own, which stop_build ends with all that the build has started.
  setsid "${idly[@]}" "$project/deploy/build" --tests "--preset=$preset" "$@" >"$building_log" 2>&1 &
  building=$!
}

# finish_build: waits for it, and returns 1 and shows the end of its output if it failed.
finish_build() {
  local status=0
  step "waiting for the build (its output is in $building_log)"
  wait "$building" || status=$?
  building=
  [ "$status" = 0 ] || { tail -n 60 "$building_log" >&2; return 1; }
}

# stop_build: for the end of a script, whatever ends it.
stop_build() { [ -z "$building" ] || kill -- "-$building" 2>/dev/null || true; }
