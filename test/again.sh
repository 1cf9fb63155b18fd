#!/usr/bin/env bash
# Runs go test. Where QQ_FLAKY names a file, at most three tests that fail are run again, three times each and alone.
# One that passes each time is flaky: it is named, also in the file, and does not fail the command. A data race, a
# panic, a test that fails twice and a package that fails without a failing test do.
#   [QQ_FLAKY=FILE] again.sh go test FLAGS... PACKAGES...
set -euo pipefail
[ -n "${QQ_FLAKY:-}" ] || exec "$@"
out=$(mktemp)
trap 'rm "$out"' EXIT
"$@" 2>&1 | tee "$out" && exit
# One line for each failing test and its package, and "?" for a package that fails in another way.
failed=$(awk '/^--- FAIL: / { names[n++] = $3 }
  /^FAIL\t/ { if (!n || NF > 3) print "?"; for (i = 0; i < n; i++) print names[i], $2 }
  /^(ok|FAIL|\?) *\t/ { n = 0 }' "$out")
if [ -z "$failed" ] || [ "$(wc -l <<<"$failed")" -gt 3 ] || grep -q '^?' <<<"$failed" ||
  grep -qE 'WARNING: DATA RACE|panic: |fatal error: ' "$out"; then # also of a child, in the report of a test
  exit 1
fi
command=()
while [ $# -gt 0 ]; do # the flags, without the names of packages and tests
  case $1 in
  -run) shift ;;
  ./* | qq/*) ;;
  *) command+=("$1") ;;
  esac
  shift
done
while read -r name package; do
  echo "again: $name of $package"
  "${command[@]}" -count=3 -failfast -run "^$name\$" "$package" </dev/null || exit 1
  echo "flaky: $name of $package failed, and passed three times alone" | tee -a "$QQ_FLAKY"
done <<<"$failed"
