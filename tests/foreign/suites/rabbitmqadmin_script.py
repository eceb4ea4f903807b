"""Commands for `rabbitmqadmin`, one after the other; and the notes of their results with RabbitMQ.

`python -m suites.rabbitmqadmin_script PROGRAM HTTP_PORT AMQP_PORT` runs it against a RabbitMQ and writes its exit codes to
`rabbitmqadmin_answers.json`. `P` is the beginning of all names, `V` a virtual host, `A` the port of AMQP clients.
"""

import json
import os
import subprocess
import sys
import time

ANSWERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rabbitmqadmin_answers.json")
SECONDS_MAX = 60

SCRIPT = """
show overview
show churn
show endpoint
nodes list
list nodes
nodes memory_breakdown_in_bytes --node NODE
nodes memory_breakdown_in_percent --node NODE
show memory_breakdown_in_bytes --node NODE
nodes memory_breakdown_in_bytes --node none-such
vhosts declare --name V --description d
declare vhost --name P2
vhosts list
list vhosts
vhosts enable_deletion_protection --name P2
vhosts delete --name P2
vhosts disable_deletion_protection --name P2
vhosts delete --name P2
vhosts delete --name P2
vhosts delete --name P2 --idempotently
users declare --name Pu --password secret --tags monitoring
declare user --name Pw --password secret
users list
list users
passwords salt_and_hash secret
permissions declare --user Pu --configure .* --write .* --read .* --vhost V
declare permissions --user Pnone --configure .* --write .* --read .* --vhost V
permissions list
list permissions
users permissions
queues declare --name q --type classic --vhost V
queues declare --name q --type classic --vhost V
queues declare --name q --type quorum --vhost V
queues declare --name qq --type quorum --durable true --vhost V
queues declare --name qs --type stream --arguments {"max-length-bytes":1000000} --vhost V
declare queue --name p --type priority --vhost V
queues declare --name bad --type classic --arguments not-json --vhost V
queues declare --name x --vhost Pnone
declare stream --name s --expiration 5h --max-length-bytes 1000000 --stream-max-segment-size-bytes 500000 --vhost V
streams list --vhost V
streams show --name s --vhost V
queues list --vhost V
list queues --vhost V
queues show --name q --vhost V
queues show --name none --vhost V
exchanges declare --name x --type topic --vhost V
declare exchange --name y --type fanout --durable true --vhost V
exchanges declare --name z --type no-such-type --vhost V
exchanges declare --name x --type fanout --vhost V
exchanges list --vhost V
list exchanges --vhost V
bindings declare --source x --destination-type queue --destination q --routing-key a.# --vhost V
declare binding --source x --destination-type exchange --destination y --routing-key k --vhost V
exchanges bind --source y --destination-type queue --destination qq --routing-key k --vhost V
bindings declare --source x --destination-type queue --destination none --routing-key k --vhost V
bindings list --vhost V
list bindings --vhost V
publish message --exchange x --routing-key a.b --payload one --vhost V
publish message --exchange x --routing-key a.b --payload two --properties {"delivery_mode":2,"priority":3} --vhost V
publish message --exchange x --routing-key nowhere --payload three --vhost V
publish message --exchange none --routing-key k --payload four --vhost V
get messages --queue q --vhost V
get messages --queue q --count 2 --ack-mode ack_requeue_false --vhost V
get messages --queue none --vhost V
get messages --queue s --vhost V
queues purge --name q --vhost V
purge queue --name q --vhost V
queues purge --name none --vhost V
exchanges unbind --source y --destination-type queue --destination qq --routing-key k --vhost V
bindings delete --source x --destination-type queue --destination q --routing-key a.# --vhost V
bindings delete --source x --destination-type queue --destination q --routing-key a.# --vhost V
bindings delete --source x --destination-type queue --destination q --routing-key a.# --vhost V --idempotently
policies declare --name p1 --pattern ^q --apply-to queues --priority 1 --definition {"max-length":100} --vhost V
declare policy --name p2 --pattern ^s --apply-to streams --priority 2 --definition {"max-age":"1h"} --vhost V
policies declare --name p3 --pattern ^q --apply-to queues --priority 1 --definition {"no-such-key":1} --vhost V
policies declare --name p4 --pattern ( --apply-to queues --priority 1 --definition {"max-length":1} --vhost V
policies list
policies list_in --vhost V
list policies
policies list_conflicting
policies list_conflicting_in --vhost V
policies list_matching_object --name q --type queues --vhost V
policies patch --name p1 --definition {"max-length":200} --vhost V
policies update_definition --name p1 --definition-key max-length --new-value 300 --vhost V
policies update_definitions_of_all_in --definition-key max-length --new-value 400 --vhost V
policies delete_definition_keys --name p1 --definition-keys max-length --vhost V
policies declare_override --name p2 --override-name o2 --definition {"max-age":"2h"} --vhost V
policies declare_blanket --name blanket --apply-to queues --definition {"expires":100000000} --vhost V
policies delete --name p2 --vhost V
policies delete --name none --vhost V
policies delete --name none --vhost V --idempotently
operator_policies declare --name o1 --pattern ^q --apply-to queues --priority 1 --definition {"max-length":1000} --vhost V
declare operator_policy --name o2 --pattern ^q --apply-to queues --priority 1 --definition {"expires":100000000} --vhost V
operator_policies list
operator_policies list_in --vhost V
operator_policies list_matching_object --name q --type queues --vhost V
operator_policies patch --name o1 --definition {"max-length":2000} --vhost V
operator_policies delete --name o2 --vhost V
operator_policies delete --name none --vhost V
vhost_limits declare --name max-queues --value 100 --vhost V
declare vhost_limit --name max-connections --value 100 --vhost V
vhost_limits declare --name no-such-limit --value 1 --vhost V
vhost_limits list
list vhost_limits --vhost V
vhost_limits delete --name max-queues --vhost V
user_limits declare --user Pu --name max-connections --value 10
declare user_limit --user Pu --name max-channels --value 10
user_limits list
users limits
user_limits delete --user Pu --name max-channels
global_parameters set --name Pg --value {"a":1}
global_parameters list
global_parameters clear --name Pg
global_parameters clear --name Pg
parameters list_all
parameters list_in --component operator_policy --vhost V
parameters set --component none-such --name x --value {} --vhost V
connections list
list connections
connections list_of_user --username Pu
users connections --username Pu
list user_connections --username Pu
connections close --name none-such
connections close_of_user --username Pu
close user_connections --username Pu
channels list
list channels
list consumers --vhost V
feature_flags list
list feature_flags
feature_flags enable_all
deprecated_features list
deprecated_features list_used
list deprecated_features
auth_attempts stats --node NODE
health_check local_alarms
health_check cluster_wide_alarms
health_check node_is_quorum_critical
health_check deprecated_features_in_use
health_check port_listener --port A
health_check port_listener --port 1
health_check protocol_listener --protocol amqp
health_check protocol_listener --protocol no-such-protocol
rebalance queues
queues rebalance
plugins list_all
definitions export --stdout
definitions export_from_vhost --stdout --vhost V
export definitions --stdout
plugins list_on_node --node NODE
queues delete --name q --vhost V
delete queue --name qq --vhost V
queues delete --name none --vhost V
queues delete --name none --vhost V --idempotently
delete stream --name s --vhost V
exchanges delete --name x --vhost V
delete exchange --name none --vhost V
permissions delete --user Pu --vhost V
users delete --name Pu
delete user --name Pw
delete user --name Pnone
delete user --name Pnone --idempotently
declare exchange --no-such-option
no_such_command
vhosts delete --name V
""".strip().splitlines()


def run(program, http_port, amqp_port, node):
    """Each line with its exit code and the end of what it said."""
    prefix = f"ra-{time.time_ns():x}-"
    swap = {"V": prefix + "v", "A": str(amqp_port), "NODE": node}
    found = []
    for line in SCRIPT:
        words = [swap.get(word, prefix + word[1:] if word.startswith("P") and word[1:2].islower() | word[1:2].isdigit() else word)
                 for word in line.split()]
        command = [*program, "--host", "127.0.0.1", "--port", str(http_port), "--non-interactive", *words]
        # The port to check is no port of the tool's.
        if "port_listener" in words:
            command = [*program, "--base-uri", f"http://127.0.0.1:{http_port}", "--non-interactive", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
                              env={**os.environ, "HOME": "/nonexistent"})
        found.append((line, done.returncode, (done.stderr or done.stdout).strip()[-300:]))
    return found


def main():
    program, http_port, amqp_port = sys.argv[1].split(), int(sys.argv[2]), int(sys.argv[3])
    found = run(program, http_port, amqp_port, sys.argv[4])
    for line, code, said in found:
        if code:
            print(code, line, "|", said.replace("\n", " ")[-160:])
    with open(ANSWERS, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f" {json.dumps(f'{at:03} {line}')}: {code}" for at, (line, code, _) in enumerate(found)) + "\n}\n")
    print(len(found), "commands")


if __name__ == "__main__":
    main()
