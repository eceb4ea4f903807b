// Cases of RabbitMQ's specs that the interface does not pass, each with the reason. A `*` stands for several cases of one
// reason. An excused case that passes is a failure: its excuse is stale.
'use strict';

const RUNTIME = "figures of processes of Erlang's runtime, which Leveret has none of";

/** By folder, file and case. */
const EXCUSES = {
  'basic-auth.ac-administrator-without-vhost-permissions.can-access-all-admin-menu-options':
    'federation, shovels and the name of the cluster are not in the list of pages; processes and tables are of Erlang',
  'definitions.enforce-definition-file-extension.rejects-upload-of-a-file-with-a-non-json-extension':
    'a file is judged by what is in it, and nothing happens before it was shown; management.definitions.require_json_extension is not there',
  'queuesAndStreams.move-messages.for-user-without-policymaker-or-administrator-tags.should-not-be-displayed':
    'no shovel is made to move messages: whoever may read and write them may move them',
  'queuesAndStreams.runtime-metrics.*': RUNTIME,
  'queuesAndStreams.with-disabled-stats.consumers.*': 'figures cannot be turned off for the whole node: management.disable_stats is not there',
};

/** Files that are not run, with the reason. */
const ABSENT = {
  'queuesAndStreams.autodelete-mqtt-qos0': 'needs MQTT (2 cases)',
  'queuesAndStreams.view-mqtt-qos0': 'needs MQTT (3 cases)',
};

module.exports = { ABSENT, EXCUSES };
