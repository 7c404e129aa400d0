#!/usr/bin/env bash
set -euo pipefail

source ./lib.sh

LIMIT=10

# Prints an error and leaves.
fail() {
  echo "error: $*" >&2
  exit 1
}

function build {
  local target="$1"
  for file in src/*.c; do
    cc -c "$file" -o "$target/$(basename "$file" .c).o" || fail "$file"
  done
}

if [[ "${1:-}" == "build" ]]; then
  build out
fi
