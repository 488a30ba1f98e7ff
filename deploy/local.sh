#!/bin/sh
# The stack of deploy/compose.yaml from packages, for machines without a container engine: PostgreSQL, a Prefect
# server and an MLflow server on it, and one worker, all below one folder and reachable only from this machine.
#
#   sh deploy/local.sh start FOLDER     writes FOLDER/env: `. FOLDER/env` sets the variables of the stack in a shell
#   sh deploy/local.sh stop FOLDER
#
# It needs PostgreSQL's programs (Debian: apt-get install postgresql) and `pip install 'evenhand[server]'`.
# PostgreSQL, Prefect and MLflow ask for random passwords, which are in files of FOLDER that you alone can read:
# `password` of the first two, `mlflow-password` of MLflow's user evenhand.
# Ports: PGPORT (55432), PREFECT_PORT (4200), MLFLOW_PORT (5000).
set -eu
PATH=$PATH:/usr/sbin:/sbin  # where runuser is

fail() { echo "local.sh: $1" >&2; exit 4; }
[ $# -eq 2 ] || { echo "usage: sh deploy/local.sh start|stop FOLDER" >&2; exit 2; }
action=$1
mkdir -p "$2/run" "$2/log"
folder=$(cd "$2" && pwd)
PGPORT=${PGPORT:-55432} PREFECT_PORT=${PREFECT_PORT:-4200} MLFLOW_PORT=${MLFLOW_PORT:-5000}

postgres=$(command -v pg_ctl || ls -d /usr/lib/postgresql/*/bin/pg_ctl 2>/dev/null | tail -n 1)
[ -n "$postgres" ] || fail "PostgreSQL's pg_ctl is not there: apt-get install postgresql."
postgres=$(dirname "$(readlink -f "$postgres")")
# PostgreSQL refuses to run as root
as_owner() { if [ "$(id -u)" -eq 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }

stop() {
    for name in worker mlflow prefect; do
        [ -f "$folder/run/$name.pid" ] || continue
        # the whole process group: servers have children
        group=$(cat "$folder/run/$name.pid")
        kill -TERM "-$group" 2>/dev/null || true
        for _ in $(seq 20); do
            kill -0 "-$group" 2>/dev/null || break
            sleep 0.5
        done
        kill -KILL "-$group" 2>/dev/null || true
        rm -f "$folder/run/$name.pid"
    done
    if [ -f "$folder/postgres/postmaster.pid" ]; then
        as_owner "$postgres/pg_ctl" --pgdata "$folder/postgres" --silent --mode fast stop
    fi
}

# NAME COMMAND...: run in its own session, so that it continues after this shell ends
start() {
    name=$1; shift
    setsid "$@" </dev/null >"$folder/log/$name.log" 2>&1 &
    echo $! >"$folder/run/$name.pid"
}

# NAME URL: wait until it answers
answers() {
    for _ in $(seq 240); do
        if python -c "import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=2)" "$2" 2>/dev/null; then
            return
        fi
        kill -0 "$(cat "$folder/run/$1.pid")" 2>/dev/null || fail "$1 ended: see $folder/log/$1.log."
        sleep 0.5
    done
    fail "$1 does not answer at $2: see $folder/log/$1.log."
}

case $action in
stop) stop ;;
start)
    for program in prefect mlflow evenhand; do
        command -v "$program" >/dev/null || fail "$program is not on PATH: pip install 'evenhand[server]'."
    done
    python -c "import flask_wtf" 2>/dev/null || fail "MLflow lacks what asks for passwords: pip install 'evenhand[server]'."
    umask 077
    # an argument of a program could be read by every account
    if [ ! -f "$folder/password" ]; then
        python -c "import secrets; print(secrets.token_hex(32))" >"$folder/password"
        changed=yes
    fi
    password=$(cat "$folder/password")
    # its users are in its database, so this file belongs to a backup of that
    if [ ! -f "$folder/mlflow-password" ]; then
        python -c "import secrets; print(secrets.token_hex(32))" >"$folder/mlflow-password"
    fi
    if [ ! -d "$folder/postgres" ]; then
        install -d -m 700 "$folder/postgres"
        [ "$(id -u)" -ne 0 ] || chown postgres "$folder/postgres"
        cp "$folder/password" "$folder/run/initdb"
        [ "$(id -u)" -ne 0 ] || chown postgres "$folder/run/initdb"
        as_owner "$postgres/initdb" --pgdata "$folder/postgres" --username evenhand --auth scram-sha-256 \
            --pwfile "$folder/run/initdb" >"$folder/log/initdb.log"
        rm "$folder/run/initdb"
        fresh=yes changed=
    fi
    # only its owner may enter the folder of the socket
    as_owner "$postgres/pg_ctl" --pgdata "$folder/postgres" --silent --wait --log "$folder/postgres/log" \
        --options "-p $PGPORT -c listen_addresses=127.0.0.1 -c unix_socket_directories=$folder/postgres" start
    export PGPASSWORD="$password"
    if [ "${changed:-}" = yes ]; then  # an older local.sh made the database, and asked for no password
        printf "ALTER ROLE evenhand PASSWORD '%s';\n" "$password" |
            "$postgres/psql" --quiet --host 127.0.0.1 --port "$PGPORT" --username evenhand postgres
        sed -i 's/trust$/scram-sha-256/' "$folder/postgres/pg_hba.conf"
        as_owner "$postgres/pg_ctl" --pgdata "$folder/postgres" --silent reload
    fi
    if [ "${fresh:-}" = yes ]; then
        for database in prefect mlflow; do
            "$postgres/createdb" --host 127.0.0.1 --port "$PGPORT" --username evenhand "$database"
        done
    fi
    cat >"$folder/env" <<ENV
export PREFECT_API_URL=http://127.0.0.1:$PREFECT_PORT/api
export PREFECT_API_AUTH_STRING=evenhand:$password
export PREFECT_HOME='$folder/prefect'
export MLFLOW_TRACKING_URI=http://127.0.0.1:$MLFLOW_PORT
export MLFLOW_TRACKING_USERNAME=evenhand
export MLFLOW_TRACKING_PASSWORD=\$(cat '$folder/mlflow-password')
export EVENHAND_STORE='$folder/store'
export PREFECT_WORKER_QUERY_SECONDS=2
export DO_NOT_TRACK=1 PREFECT_SERVER_ANALYTICS_ENABLED=false MLFLOW_DISABLE_TELEMETRY=true
ENV
    . "$folder/env"
    database=evenhand:$password@127.0.0.1:$PGPORT
    PREFECT_API_DATABASE_CONNECTION_URL=postgresql+asyncpg://$database/prefect \
        PREFECT_SERVER_API_AUTH_STRING=$PREFECT_API_AUTH_STRING \
        PREFECT_SERVER_CORS_ALLOWED_ORIGINS=http://127.0.0.1:$PREFECT_PORT \
        start prefect prefect server start --host 127.0.0.1 --port "$PREFECT_PORT"
    cat >"$folder/mlflow-auth.ini" <<INI
[mlflow]
default_permission = READ
database_uri = postgresql+psycopg2://evenhand@127.0.0.1:$PGPORT/mlflow
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
auth_cache_ttl_seconds = 60
INI
    (
        unset MLFLOW_TRACKING_URI
        export MLFLOW_AUTH_CONFIG_PATH="$folder/mlflow-auth.ini"
        # the administrator that the first start makes
        export MLFLOW_AUTH_ADMIN_USERNAME="$MLFLOW_TRACKING_USERNAME"
        export MLFLOW_AUTH_ADMIN_PASSWORD="$MLFLOW_TRACKING_PASSWORD"
        MLFLOW_FLASK_SERVER_SECRET_KEY=$(python -c "import secrets; print(secrets.token_hex(32))")
        export MLFLOW_FLASK_SERVER_SECRET_KEY
        # a registry does not need its job runners
        export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false
        export MLFLOW_BACKEND_STORE_URI=postgresql+psycopg2://$database/mlflow
        start mlflow mlflow server --app-name basic-auth --host 127.0.0.1 --port "$MLFLOW_PORT" --workers 1 \
            --artifacts-destination "$folder/mlflow"
    )
    answers prefect "$PREFECT_API_URL/health"
    answers mlflow "$MLFLOW_TRACKING_URI/health"
    prefect work-pool create evenhand --type process --overwrite >"$folder/log/pool.log"
    start worker prefect worker start --pool evenhand
    echo "Prefect $PREFECT_API_URL, MLflow $MLFLOW_TRACKING_URI, store $EVENHAND_STORE"
    echo "now:    . $folder/env"
    echo "Prefect's pages ask for PREFECT_API_AUTH_STRING, MLflow's for MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD:"
    echo "that file sets them"
    ;;
*) fail "start or stop, not $action." ;;
esac
