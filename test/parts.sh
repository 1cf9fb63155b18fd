#!/usr/bin/env bash
# Tests all packages below the working directory. The tests of one large package, which mostly wait for processes, run
# in several parts at once. What a part prints is printed when it has ended.
#   [WITHOUT=PACKAGE] parts.sh PARTS FOLDER go test FLAGS...
set -euo pipefail
parts=$1 large=$2
shift 2
set -- "${BASH_SOURCE%/*}/again.sh" "$@"
out=$(mktemp -d)
trap 'rm -r "$out"' EXIT
mapfile -t packages < <(go list ./... | grep -vE "/($large|${WITHOUT:-$large})\$")
mapfile -t names < <(grep -hEo '^func (Test|Fuzz)[A-Za-z0-9_]+' "$large"/*_test.go | sed 's/^func //' | grep -vx TestMain)

set -m # each part has a process group of its own, and does not ignore Ctrl-C
pids=()
for ((i = 0; i < parts; i++)); do
  part=()
  for ((j = i; j < ${#names[@]}; j += parts)); do part+=("${names[j]}"); done
  "$@" -run "^($(IFS='|' && echo "${part[*]}"))\$" "./$large" >"$out/$i" 2>&1 </dev/null &
  pids+=($!)
done
"$@" "${packages[@]}" </dev/null &
pids+=($!)
trap 'for pid in "${pids[@]}"; do kill -INT -- "-$pid" || true; done' INT TERM
code=0
wait "${pids[parts]}" || code=1
for ((i = 0; i < parts; i++)); do
  wait "${pids[i]}" || code=1
  cat "$out/$i"
done
exit $code
