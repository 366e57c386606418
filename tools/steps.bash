# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Runs the steps of tools/check and tools/acceptance, which source this file. They define `usage`, the array `steps` of
# "name|part of --quick|description", and a function step_NAME for each step; then they call run_steps "$@". A step runs in
# a subshell under set -e, with its output in a log.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 2

jobs=${JOBS:-$(nproc)}
logs=${PITOT_CHECK_DIR:-build/check}
export CTEST_PARALLEL_LEVEL=$jobs CMAKE_BUILD_PARALLEL_LEVEL=$jobs PYTHONDONTWRITEBYTECODE=1

quick=no
keep_going=no
only=()
skip=()

die() {
  echo "$0: $*" >&2
  echo "0 passed, 1 failed"
  exit 2
}

names() {
  local step
  # shellcheck disable=SC2154 # of the script that sources this
  for step in "${steps[@]}"; do echo "${step%%|*}"; done
}

known() {
  # No pipe: grep -q ends early, and a pipe that breaks counts as a failure.
  grep -qx -- "$1" <<<"$(names)" || die "no step '$1'; $0 --list names them"
}

read_arguments() {
  while (($#)); do
    case $1 in
      --quick) quick=yes ;;
      --keep-going) keep_going=yes ;;
      --only | --skip)
        (($# > 1)) || die "$1 needs the name of a step; $0 --list names them"
        known "$2"
        if [[ $1 == --only ]]; then only+=("$2"); else skip+=("$2"); fi
        shift
        ;;
      --list)
        local step name what
        for step in "${steps[@]}"; do
          IFS='|' read -r name _ what <<<"$step"
          printf '%-18s %s\n' "$name" "$what"
        done
        exit 0
        ;;
      --help | -h)
        usage
        exit 0
        ;;
      *)
        usage >&2
        die "unknown argument '$1'"
        ;;
    esac
    shift
  done
}

contains() {
  local wanted=$1 item
  shift
  for item in "$@"; do [[ $item == "$wanted" ]] && return 0; done
  return 1
}

# Fails with the remedy if a program is missing.
need() {
  command -v "$1" >/dev/null || {
    echo "$1 is not installed; run: tools/install_packages check"
    return 1
  }
}

# build PRESET [CMAKE ARGUMENT...]: configures, builds, and lists the slowest files to compile.
build() {
  local preset=$1 begun
  shift
  begun=$(date +%s)
  cmake --preset "$preset" "$@"
  cmake --build --preset "$preset"
  python3 tools/slowest.py compiled "build/$preset" --since "$begun"
}

# The commit for finding changed files: the fork point of this branch from origin/main. On a clone of a finished branch that is
# the branch itself; then it is the last commit that is a day older.
changed_since() {
  local base
  if [[ -n ${CHECK_BASE:-} ]]; then
    echo "$CHECK_BASE"
    return
  fi
  if base=$(git merge-base origin/main HEAD 2>/dev/null) && [[ $base != $(git rev-parse HEAD) ]]; then
    echo "$base"
    return
  fi
  base=$(git rev-list -1 --before="$(($(git log -1 --format=%ct) - 24 * 3600))" HEAD)
  echo "${base:-$(git hash-object -t tree /dev/null)}" # the empty tree: everything is new
}

# run_tests PRESET [CTEST ARGUMENT...]: runs tests, and lists the slowest.
run_tests() {
  local preset=$1 status=0 log
  shift
  log=$(mktemp)
  ctest --preset "$preset" "$@" | tee "$log" || status=$?
  python3 tools/slowest.py tested "$log"
  rm -f "$log"
  return "$status"
}

# sanitize PRESET changed|all: builds and runs the tests of the folders with changed code, or all tests. If all of them have
# passed on this commit, they do not run again.
sanitize() {
  local preset=$1 scope=$2 begun targets=() tests=() all=() passed=build/$1/passed_on
  begun=$(date +%s)
  cmake --preset "$preset"
  local select=(python3 tools/affected.py "build/$preset")
  mapfile -t all < <("${select[@]}" --all --print tests)
  if [[ $scope == all && -f $passed && $(<"$passed") == $(git rev-parse HEAD) ]]; then
    echo "all ${#all[@]} tests have passed on this commit"
    return 0
  fi
  if [[ $scope == all ]]; then select+=(--all); else select+=(--since "$(changed_since)"); fi
  mapfile -t targets < <("${select[@]}" --print targets)
  mapfile -t tests < <("${select[@]}" --print tests)
  if ((${#tests[@]} == 0)); then
    echo "no test folder with changed code"
    return 0
  fi
  cmake --build --preset "$preset" --target "${targets[@]}"
  python3 tools/slowest.py compiled "build/$preset" --since "$begun"
  run_tests "$preset" -R "^($(IFS='|'; echo "${tests[*]}"))\$"
  if ((${#tests[@]} == ${#all[@]})); then git rev-parse HEAD >"$passed"; fi
}

# The number of tests in a step's log: in all its ctest and unittest runs, or 1. Prints "passed failed", then the names of
# the tests that ctest skipped, which are in neither number.
count() {
  local log=$1 status=$2
  awk -v status="$status" '
    match($0, /[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+/) {
      split(substr($0, RSTART, RLENGTH), w, " "); failed += w[4]; passed += w[9] - w[4]
    }
    /^\t *[0-9]+ - .* \(Skipped\)$/ { skipped = skipped " " $3; passed-- }
    /^Ran [0-9]+ tests? in / { ran = $2; passed += ran }
    /^FAILED \(/ { n = 0; s = $0; while (match(s, /(failures|errors)=[0-9]+/)) {
      split(substr(s, RSTART, RLENGTH), w, "="); n += w[2]; s = substr(s, RSTART + RLENGTH) }
      failed += n; passed -= n }
    END {
      if (status != 0 && failed == 0) failed = 1
      if (status == 0 && passed == 0) passed = 1
      print passed + 0, failed + 0 skipped
    }' "$log"
}

# For each failed test of a ctest run in a step's log: 25 lines from its first error, or its last 25 lines.
of_failed_tests() {
  awk '
    function say(    i, from) {
      if (name == "") return
      from = wrong ? wrong : (lines > 25 ? lines - 24 : 1)
      print "---- what " name " said"
      for (i = from; i <= lines && i < from + 25; i++) print said[i]
      name = ""
    }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: |^ +Start +[0-9]+: |^[0-9]+% tests passed/ { say() }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*\*\*\*[^S]/ { sub(/.*Test +#[0-9]+: /, ""); name = $1; lines = wrong = 0; next }
    name != "" { said[++lines] = substr($0, 1, 200); if (!wrong && /FAILED:|WARNING: ThreadSanitizer|ERROR: |runtime error:|terminate called/) wrong = lines }
    END { say() }' "$1"
}

passed=0
failed=0
summary=()
started=$SECONDS

finish() {
  local line
  echo
  for line in "${summary[@]}"; do echo "$line"; done
  printf 'total %d:%02d\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
  echo "$passed passed, $failed failed"
  if ((failed)); then exit 1; fi
  exit 0
}

job=
interrupted() {
  trap - INT TERM
  # The step and all its children: they are a process group of their own.
  if [[ -n $job ]]; then kill -TERM -- "-$job" 2>/dev/null || true; fi
  summary+=("interrupted")
  failed=$((failed + 1))
  finish
}
trap interrupted INT TERM

run_steps() {
  local step name in_quick what log begun status step_passed step_failed step_skipped took
  read_arguments "$@"
  mkdir -p "$logs"
  for step in "${steps[@]}"; do
    IFS='|' read -r name in_quick what <<<"$step"
    if ((${#only[@]})); then
      contains "$name" "${only[@]}" || continue
    elif [[ $quick == yes && $in_quick == no ]]; then
      continue
    fi
    if ((${#skip[@]})) && contains "$name" "${skip[@]}"; then continue; fi
    if [[ -n ${MOST_MINUTES:-} ]] && ((SECONDS - started >= MOST_MINUTES * 60)); then
      printf '%-18s not run: %s minutes are over\n' "$name" "$MOST_MINUTES"
      summary+=("$(printf 'NOT RUN %-18s' "$name")")
      continue
    fi
    log=$logs/$name.log
    printf '%-18s ' "$name"
    begun=$SECONDS
    status=0
    # A subshell for each step, so that -e holds in it and a step cannot change this shell.
    set -m
    (
      set -euo pipefail
      trap - INT TERM
      "step_$name"
    ) >"$log" 2>&1 </dev/null &
    job=$!
    set +m
    wait "$job" || status=$?
    job=
    read -r step_passed step_failed step_skipped < <(count "$log" "$status")
    passed=$((passed + step_passed))
    failed=$((failed + step_failed))
    took=$(printf '%d:%02d' $(((SECONDS - begun) / 60)) $(((SECONDS - begun) % 60)))
    if ((status == 0)); then
      printf 'ok      %6s  %s\n' "$took" "$what"
      sed -n '/^slowest of /,$s/^/    /p' "$log"
      summary+=("$(printf 'ok      %-18s %6s  %d passed%s' "$name" "$took" "$step_passed" "${step_skipped:+, not run: $step_skipped}")")
      continue
    fi
    printf 'FAILED  %6s  %s\n' "$took" "$what"
    summary+=("$(printf 'FAILED  %-18s %6s  %d passed, %d failed  %s' "$name" "$took" "$step_passed" "$step_failed" "$log")")
    echo "---- the last lines of $log"
    tail -n 20 "$log"
    of_failed_tests "$log"
    echo "---- to repeat this step alone: $0 --only $name"
    if [[ $keep_going == no ]]; then finish; fi
  done
  if ((${#summary[@]} == 0)); then die "no step to run"; fi
  finish
}
