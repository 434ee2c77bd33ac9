#!/usr/bin/env bash
# Runs the Python peers of the bench suite, in a virtual environment with pinned versions that is
# made on first use. Needs python3 (3.11 or newer) with venv, and a package registry the first time.
# Prints JSON; `--help` lists the options.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
venv="${CTXLOG_PEERS_VENV:-$here/../../target/peers}"
wanted="$(cat "$here/requirements.txt")"
if [ "$(cat "$venv/made-from" 2> /dev/null)" != "$wanted" ]; then
  echo 'making the virtual environment of the Python peers' >&2
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" >&2
  printf '%s\n' "$wanted" > "$venv/made-from"
fi
exec "$venv/bin/python" "$here/peers.py" "$@"
