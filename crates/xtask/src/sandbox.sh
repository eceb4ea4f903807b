# Runs the steps of a page in order, beside a node on its usual ports. Ends at the first step that fails.
# $1: folder with `steps`, `bin`, `out` and `work`; $2: a Python with pika, or a word that is none.
# All of it runs in network and process namespaces of its own, which end with this script.
set -u
folder=$1
python=$2
ip link set lo up || exit 1
export PATH="$folder/bin:$PATH" HOME="$folder/work" RABBITMQ_NODENAME=rabbit@hare LC_ALL=C.UTF-8
cd "$folder/work" || exit 1

# Starts a node in the background and waits until it serves.
begin() {
    "$@" > "$folder/node.log" 2>&1 < /dev/null &
    for _ in $(seq 400); do
        grep -q 'Server startup complete' "$folder/node.log" && return 0
        kill -0 $! 2> /dev/null || break
        sleep 0.05
    done
    cat "$folder/node.log"
    return 1
}

if [ ! -e "$folder/has-server" ]; then
    begin leveret server || exit 1
fi
for step in "$folder"/steps/*; do
    name=$(basename "$step")
    out=$folder/out/$name
    case $name in
        *.server) begin bash -eu "$step" > "$out" 2>&1 ;;
        *.python) timeout -k 1 60 "$python" "$step" > "$out" 2>&1 < /dev/null ;;
        *) timeout -k 1 60 bash -eu -o pipefail "$step" > "$out" 2>&1 < /dev/null ;;
    esac
    code=$?
    echo $code > "$out.code"
    [ $code = 0 ] || break
done
exit 0
