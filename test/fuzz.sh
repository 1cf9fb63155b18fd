#!/usr/bin/env bash
# Runs every fuzz target of the packages below the working directory. Each package is built once; two are at work at once.
#   fuzz.sh FUZZTIME go [FLAGS...]
set -euo pipefail
time=$1 go=$2
shift 2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export out time go

# one DIR FLAGS...: all targets of one package. What they print is printed when they have ended.
one() {
  local dir=$1 name=${1//\//_} code=0
  shift
  mkdir -p "$out/$name"
  "$go" test "$@" -c -fuzz . -o "$out/$name/test" "./$dir" >"$out/$name/log" 2>&1 || code=1
  for f in $(grep -hEo '^func Fuzz[A-Za-z0-9]+' "$dir"/*_test.go | sed 's/^func //'); do
    [ "$code" = 0 ] || break
    echo "== ./$dir $f" >>"$out/$name/log"
    (cd "$dir" && "$out/$name/test" -test.run '^$' -test.fuzz "^$f\$" -test.fuzztime "$time" -test.fuzzminimizetime 10x \
      -test.fuzzcachedir "$("$go" env GOCACHE)/fuzz/$name") </dev/null >>"$out/$name/log" 2>&1 || code=1
  done
  cat "$out/$name/log"
  rm -f "$out/$name/test"
  return $code
}
export -f one

grep -rlE '^func Fuzz' --include='*_test.go' cmd pkg internal | xargs -n1 dirname | sort -u |
  xargs -P 2 -I{} bash -c 'one "$@"' one {} "$@"
