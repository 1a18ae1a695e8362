#!/bin/sh
# Makes .venv with everything that was locked. Needs Python 3.11 or newer and pip, nothing else.
#   sh scripts/setup.sh run    what the server needs
#   sh scripts/setup.sh dev    and what tests and checks need
set -eu
cd "$(dirname "$0")/.."

what=${1:-run}
python=${PYTHON:-python3}
venv=.venv
log=$venv/setup.log

fail() {
    echo "setup: $1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    fail "there is no '$python'. Install Python 3.11 or newer, or say which: make setup PYTHON=…"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "'$python' is $("$python" -V 2>&1); 3.11 or newer is needed. Say which: make setup PYTHON=…"

if [ -e $venv ] && ! $venv/bin/python -c 'pass' >/dev/null 2>&1; then
    echo "setup: .venv is broken, making it anew"
    rm -rf $venv
fi
if [ ! -e $venv ]; then
    echo "setup: making .venv with $("$python" -V 2>&1)"
    # Some systems leave ensurepip out; their own pip then fills the environment.
    "$python" -m venv $venv >/dev/null 2>&1 || "$python" -m venv --clear --without-pip $venv ||
        fail "'$python -m venv' does not work here. Install the venv package of your system."
fi
if $venv/bin/python -m pip --version >/dev/null 2>&1; then
    pip="$venv/bin/python -m pip"
elif "$python" -m pip --version >/dev/null 2>&1; then
    pip="$python -m pip --python $venv/bin/python"
else
    fail "'$python' has no pip. Install the pip package of your system."
fi

case $what in
    run) lock=requirements.lock ;;
    dev) lock=requirements-dev.lock ;;
    *) fail "unknown word '$what': run or dev" ;;
esac

rm -f $venv/.ready-run $venv/.ready-dev
echo "setup: installing $(grep -c '^[a-z0-9].*==' $lock) locked packages (details in $log)"
# Every file is checked against the hash in the lock, and no builder is fetched on the way.
if ! { $pip install --quiet --disable-pip-version-check --require-hashes -r $lock &&
    $pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; } \
    >$log 2>&1; then
    tail -n 20 $log >&2
    fail "installing failed; the lines above say why. Nothing outside .venv was changed."
fi

touch $venv/.ready-run
[ "$what" = run ] || touch $venv/.ready-dev
echo "setup: done"
