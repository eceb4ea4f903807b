"""Twenty-two configurations in the forms that charts, operators, images, roles and guides give them, with the report of `--check-config`.

Each is what `check_config` of the suite takes, then the counts of the last line (served, without effect, refused, unknown), then what the
lines of refused and unknown settings are to say, in their order. `@CERTS@` is a folder of certificates; `@FILES@` one in which
`definitions.json` is. A configuration that can be used has no such lines.
"""

OPERATOR = """queue_master_locator = min-masters
disk_free_limit.absolute = 2GB
cluster_partition_handling = pause_minority
cluster_formation.peer_discovery_backend = rabbit_peer_discovery_k8s
cluster_formation.k8s.host = kubernetes.default
cluster_formation.k8s.address_type = hostname
cluster_formation.target_cluster_size_hint = 3
cluster_name = orders
"""

FILES = {
    "a cluster operator, three replicas": ({"text": OPERATOR + """
total_memory_available_override_value = 1717986918
default_user = default_user_hhdSbfmUv2
default_pass = wP2Xy9dXKpLq
"""}, (5, 4, 2, 0), [
        "peer_discovery_backend = rabbit_peer_discovery_k8s' cannot be used: no cluster is formed yet",
        "target_cluster_size_hint = 3' cannot be used: no cluster is formed yet"]),
    "a cluster operator, one replica": ({"text": OPERATOR.replace("hint = 3", "hint = 1") + """
default_user = default_user_hhdSbfmUv2
default_pass = wP2Xy9dXKpLq
""", "environment": {"RABBITMQ_ENABLED_PLUGINS": "rabbitmq_peer_discovery_k8s,rabbitmq_prometheus,rabbitmq_management",
                     "RABBITMQ_USE_LONGNAME": "true"}}, (4, 8, 0, 0), []),
    "a directory that was prepared and is not asked": ({"text": """default_user = app
auth_backends.1 = internal
auth_ldap.servers.1 = ldap.example.net
auth_ldap.servers.2 = ldap2.example.net
auth_ldap.use_starttls = true
auth_ldap.dn_lookup_base = ou=people,dc=example,dc=net
auth_ldap.log = network
auth_http.user_path = http://localhost:8000/auth/user
""", "advanced": """[
  {rabbitmq_auth_backend_ldap, [{resource_access_query, {constant, true}}]}
].
"""}, (2, 7, 0, 0), []),
    "a cluster operator, TLS alone, more of the user's": ({"text": """cluster_name = payments
disk_free_limit.absolute = 2GB
listeners.tcp = none
listeners.ssl.default = 5671
ssl_options.cacertfile = @CERTS@/ca.pem
ssl_options.certfile = @CERTS@/server.pem
ssl_options.keyfile = @CERTS@/server.key
ssl_options.verify = verify_peer
management.ssl.port = 15671
management.ssl.cacertfile = @CERTS@/ca.pem
management.ssl.certfile = @CERTS@/server.pem
management.ssl.keyfile = @CERTS@/server.key
prometheus.ssl.port = 15691
prometheus.ssl.cacertfile = @CERTS@/ca.pem
prometheus.ssl.certfile = @CERTS@/server.pem
prometheus.ssl.keyfile = @CERTS@/server.key
management.tcp.port = 15672
# additionalConfig
log.console.level = debug
channel_max = 1050
vm_memory_high_watermark.relative = 0.7
"""}, (20, 0, 0, 0), []),
    "a chart that logs in over LDAP": ({"text": """default_user = user
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
cluster_name = rabbitmq
auth_backends.1.authn = ldap
auth_backends.1.authz = internal
auth_backends.2 = internal
auth_ldap.servers.1 = openldap.directory.svc.cluster.local
auth_ldap.port = 1389
auth_ldap.user_dn_pattern = cn=${username},ou=users,dc=example,dc=org
auth_ldap.use_ssl = false
auth_ldap.timeout = 30000
log.console.level = info
""", "advanced": """[
  {rabbitmq_auth_backend_ldap, [
    {vhost_access_query, {in_group, "ou=${vhost}-users,ou=vhosts,dc=example,dc=org"}},
    {tag_queries, [{administrator, {in_group, "cn=admins,dc=example,dc=org"}}, {management, {constant, true}}]}
  ]}
].
"""}, (8, 7, 1, 0), ["LDAP is not served yet; auth_backends.1.authn can be: internal"]),
    "an image, started by its variables": ({"text": """# conf.d/10-defaults.conf
loopback_users.guest = false
log.console = true
# conf.d/20-management_agent.disable_metrics_collector.conf
management_agent.disable_metrics_collector = true
# conf.d/90-ours.conf
vm_memory_high_watermark.absolute = 1536MB
management.load_definitions = @FILES@/definitions.json
""", "environment": {"RABBITMQ_DEFAULT_USER": "app", "RABBITMQ_DEFAULT_PASS": "app", "RABBITMQ_DEFAULT_VHOST": "shop",
                     "RABBITMQ_ERLANG_COOKIE": "cookie", "RABBITMQ_LOGS": "-", "RABBITMQ_NODENAME": "rabbit@localhost"}}, (7, 2, 0, 0), []),
    "a hosted broker": ({"text": """listeners.tcp.default = 5672
heartbeat = 120
channel_max = 0
connection_max = infinity
consumer_timeout = 7200000
max_message_size = 134217728
vm_memory_high_watermark.relative = 0.81
queue_index_embed_msgs_below = 4096
cluster_partition_handling = autoheal
log.exchange = true
log.exchange.level = error
log.default.level = warning
mqtt.vhost = app
mqtt.exchange = amq.topic
management.rates_mode = basic
collect_statistics_interval = 10000
management.cors.allow_origins.1 = https://console.example.org
"""}, (9, 8, 0, 0), []),
    "a role that writes the classic format": ({"named": "rabbitmq.config", "text": """%% Managed by a role, changes will be lost.
[
  {rabbit, [
    {auth_mechanisms, ['PLAIN', 'AMQPLAIN', 'EXTERNAL']},
    {tcp_listeners, [{"10.0.3.7", 5672}, {"127.0.0.1", 5672}]},
    {ssl_listeners, [{"10.0.3.7", 5671}]},
    {ssl_options, [{cacertfile, "@CERTS@/ca.pem"},
                   {certfile, "@CERTS@/server.pem"},
                   {keyfile, "@CERTS@/server.key"},
                   {verify, verify_peer},
                   {fail_if_no_peer_cert, false},
                   {versions, ['tlsv1.2', 'tlsv1.3']}]},
    {credential_validator, [{validation_backend, rabbit_credential_validator_password_regexp},
                            {regexp, <<"^[a-zA-Z0-9]{20,100}$">>}]},
    {cluster_nodes, {['rabbit@mq1', 'rabbit@mq2', 'rabbit@mq3'], disc}},
    {cluster_partition_handling, pause_minority},
    {vm_memory_high_watermark, 0.5},
    {disk_free_limit, {mem_relative, 1.5}}
  ]},
  {rabbitmq_management, [{listener, [{ip, "10.0.3.7"}, {port, 15671}, {ssl, true},
                                     {ssl_opts, [{certfile, "@CERTS@/server.pem"}, {keyfile, "@CERTS@/server.key"}]}]}]}
].
"""}, (19, 2, 4, 0), [
        "rules for passwords are not enforced yet",
        "and rabbit@mq1 with it",
        "and rabbit@mq2 with it",
        "and rabbit@mq3 with it"]),
    "a module that writes the classic format": ({"named": "rabbitmq.config", "text": """% Written by a module of configuration management
[
  {rabbit, [
    {heartbeat, 30},
    {cluster_partition_handling, ignore},
    {tcp_listen_options, [
      binary,
      {packet, raw},
      {reuseaddr, true},
      {backlog, 128},
      {nodelay, true},
      {exit_on_close, false},
      {keepalive, true}
    ]},
    {loopback_users, []},
    {log_levels, [{connection, info}]},
    {default_user, <<"admin">>},
    {default_pass, <<"s3cr3t">>}
  ]},
  {kernel, [{inet_dist_listen_min, 25672}, {inet_dist_listen_max, 25672}]},
  {rabbitmq_management, [{listener, [{port, 15672}, {ip, "0.0.0.0"}]}, {rates_mode, none}]},
  {rabbitmq_shovel, [{shovels, []}]}
].
% EOF
"""}, (9, 8, 0, 0), []),
    "a cloud's control plane": ({"text": """listeners.tcp.1 = 192.168.10.11:5672
listeners.ssl = none
management.listener.ip = 192.168.10.11
management.listener.port = 15672
management.load_definitions = @FILES@/definitions.json
prometheus.tcp.ip = 192.168.10.11
prometheus.tcp.port = 15692
cluster_partition_handling = pause_minority
cluster_formation.peer_discovery_backend = rabbit_peer_discovery_classic_config
cluster_formation.classic_config.nodes.1 = rabbit@control01
cluster_formation.classic_config.nodes.2 = rabbit@control02
cluster_formation.classic_config.nodes.3 = rabbit@control03
cluster_formation.target_cluster_size_hint = 3
cluster_keepalive_interval = 3000
deprecated_features.permit.management_metrics_collection = true
log.file.level = info
""", "advanced": """[
  {kernel, [{inet_dist_use_interface, {192,168,10,11}}, {sync_dist_timeout, 15000}]},
  {rabbit, [{tcp_listen_options, [{keepalive, true}, {linger, {true, 0}}]}]}
].
"""}, (9, 8, 4, 0), [
        "and rabbit@control01 with it",
        "and rabbit@control02 with it",
        "and rabbit@control03 with it",
        "target_cluster_size_hint = 3' cannot be used"]),
    "nodes that find each other in a cloud": ({"text": """cluster_formation.peer_discovery_backend = aws
cluster_formation.aws.region = eu-central-1
cluster_formation.aws.use_autoscaling_group = true
cluster_formation.aws.access_key_id = AKIAEXAMPLE
cluster_formation.consul.host = consul.example.net
cluster_formation.node_cleanup.interval = 60
cluster_formation.node_cleanup.only_log_warning = false
cluster_formation.randomized_startup_delay_range.min = 5
cluster_formation.discovery_retry_limit = 15
aws.prefer_imdsv2 = true
net_ticktime = 60
"""}, (0, 10, 1, 0), ["peer_discovery_backend = aws' cannot be used: no cluster is formed yet"]),
    "certificates for both sides, TLS 1.3": ({"text": """listeners.tcp = none
listeners.ssl.1 = 0.0.0.0:5671
ssl_options.cacertfile = @CERTS@/ca.pem
ssl_options.certfile = @CERTS@/server.pem
ssl_options.keyfile = @CERTS@/server.key
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.depth = 2
ssl_options.versions.1 = tlsv1.3
ssl_options.ciphers.1 = TLS_AES_256_GCM_SHA384
ssl_options.ciphers.2 = TLS_AES_128_CCM_SHA256
ssl_options.honor_cipher_order = true
ssl_options.client_renegotiation = false
auth_mechanisms.1 = EXTERNAL
ssl_cert_login_from = common_name
num_acceptors.ssl = 10
ssl_handshake_timeout = 10000
"""}, (15, 2, 0, 0), []),
    "OAuth 2 with an identity server": ({"text": """auth_backends.1 = rabbit_auth_backend_oauth2
auth_backends.2 = rabbit_auth_backend_internal
auth_oauth2.resource_server_id = rabbitmq
auth_oauth2.issuer = https://idp.example.org/realms/test
auth_oauth2.preferred_username_claims.1 = user_name
auth_oauth2.https.peer_verification = verify_peer
management.oauth_enabled = true
management.oauth_client_id = rabbitmq-ui
management.oauth_scopes = openid profile rabbitmq.tag:administrator
management.oauth_provider_url = https://idp.example.org/realms/test
log.console = true
"""}, (2, 7, 2, 0), [
        "OAuth 2 is not served yet; auth_backends.1 can be: internal",
        "'management.oauth_enabled = true' cannot be used: OAuth 2 is not served yet"]),
    "users behind an HTTP service, cached": ({"text": """auth_backends.1 = cache
auth_cache.cached_backend = http
auth_cache.cache_ttl = 15000
auth_http.http_method = post
auth_http.user_path = http://users:8000/auth/user
auth_http.vhost_path = http://users:8000/auth/vhost
auth_http.resource_path = http://users:8000/auth/resource
auth_http.topic_path = http://users:8000/auth/topic
loopback_users.guest = true
"""}, (1, 7, 1, 0), ["auth_backends.1 can be: internal"]),
    "things over MQTT": ({"text": """loopback_users = none
listeners.tcp.default = 5672
mqtt.listeners.tcp.default = 1883
mqtt.listeners.ssl.default = 8883
mqtt.allow_anonymous = false
mqtt.vhost = /
mqtt.exchange = amq.topic
mqtt.max_session_expiry_interval_seconds = 86400
mqtt.durable_queue_type = quorum
mqtt.prefetch = 10
web_mqtt.tcp.port = 15675
web_mqtt.ws_path = /ws
vm_memory_high_watermark.relative = 0.7
disk_free_limit.relative = 0.5
"""}, (4, 7, 3, 0), [
        "'mqtt.listeners.tcp.default' cannot be used: MQTT is not served yet",
        "'mqtt.listeners.ssl.default' cannot be used: MQTT is not served yet",
        "'web_mqtt.tcp.port' cannot be used: MQTT is not served yet"]),
    "web pages over STOMP": ({"text": """default_user = $(APP_USER)
default_pass = $(APP_PASSWORD)
stomp.listeners.tcp.1 = 61613
stomp.default_user = guest
stomp.default_pass = guest
stomp.implicit_connect = true
web_stomp.tcp.port = 15674
web_stomp.ws_frame = text
web_stomp.cowboy_opts.max_keepalive = 10
heartbeat = 20
""", "environment": {"APP_USER": "relay", "APP_PASSWORD": "relay pass"}}, (3, 5, 2, 0), [
        "'stomp.listeners.tcp.1' cannot be used: STOMP is not served yet",
        "'web_stomp.tcp.port' cannot be used: STOMP is not served yet"]),
    "shovels and federation of old": ({"text": "listeners.tcp.default = 5672\n", "advanced": """[
  {rabbitmq_shovel, [
    {shovels, [
      {orders_to_archive, [
        {source, [{protocol, amqp091}, {uris, ["amqp://a:b@source.example"]}, {queue, <<"orders">>}]},
        {destination, [{protocol, amqp091}, {uris, ["amqp://"]}, {publish_properties, [{delivery_mode, 2}]}]},
        {ack_mode, on_confirm},
        {reconnect_delay, 5}
      ]}
    ]}
  ]},
  {rabbitmq_federation, [{internal_exchange_check_interval, 30000}]},
  {rabbit, [{consumer_timeout, undefined}, {default_consumer_prefetch, {false, 250}}]}
].
"""}, (2, 1, 2, 0), ["shovels are not served yet", "consumers have no prefetch that they did not ask for"]),
    "streams, with a name for clients elsewhere": ({"text": """listeners.tcp.default = 5672
stream.listeners.tcp.1 = 5552
stream.listeners.ssl.default = 5551
stream.advertised_host = streams.example.org
stream.advertised_port = 15552
stream.advertised_tls_host = streams.example.org
stream.frame_max = 1048576
stream.heartbeat = 60
stream.initial_credits = 50000
stream.tcp_listen_options.backlog = 4096
stream.replication.port_range.min = 6000
ssl_options.certfile = @CERTS@/server.pem
ssl_options.keyfile = @CERTS@/server.key
default_queue_type = stream
""", "advanced": "[{osiris, [{data_dir, \"/data/streams\"}]}].\n"}, (12, 3, 0, 0), []),
    "behind proxies": ({"text": """proxy_protocol = true
listeners.tcp.default = 5672
management.path_prefix = /mq
management.cors.allow_origins.1 = https://ops.example.org
management.http_log_dir = /var/log/rabbitmq/http
web_amqp.proxy_protocol = true
reverse_dns_lookups = true
tcp_listen_options.keepalive = true
tcp_listen_options.sndbuf = 196608
tcp_listen_options.recbuf = 196608
socket_writer.gc_threshold = 500000000
log.connection.level = none
"""}, (6, 4, 2, 0), ["the PROXY protocol is not served yet", "'web_amqp.proxy_protocol = true' cannot be used: the PROXY protocol is not served yet"]),
    "a file of 3.6": ({"named": "rabbitmq.config", "text": """[
 {rabbit, [
   {tcp_listeners, [5672]},
   {num_tcp_acceptors, 10},
   {hipe_compile, false},
   {heartbeat, 60},
   {frame_max, 131072},
   {vm_memory_high_watermark, 0.4},
   {vm_memory_high_watermark_paging_ratio, 0.75},
   {disk_free_limit, "1GB"},
   {queue_index_embed_msgs_below, 4096},
   {mirroring_sync_batch_size, 4096},
   {queue_master_locator, <<"min-masters">>},
   {log_levels, [{connection, error}, {channel, warning}]},
   {default_vhost, <<"/">>},
   {default_user_tags, [administrator]},
   {default_permissions, [<<".*">>, <<".*">>, <<".*">>]}]},
 {rabbitmq_management, [{http_log_dir, "/var/log/rabbitmq/access.log"}, {rates_mode, basic}, {sample_retention_policies, [
    {global, [{60, 5}, {3600, 60}]}, {basic, [{60, 5}]}, {detailed, [{10, 5}]}]}]},
 {rabbitmq_management_agent, [{force_fine_statistics, true}]},
 {rabbitmq_mqtt, [{allow_anonymous, true}, {tcp_listeners, [1883]}]},
 {rabbitmq_auth_backend_ldap, [{servers, ["ldap"]}, {user_dn_pattern, "cn=${username},dc=example"}]},
 {sasl, [{sasl_error_logger, false}]}
].
"""}, (10, 15, 1, 0), ["'mqtt.listeners.tcp.1' cannot be used: MQTT is not served yet"]),
    "a package on a virtual machine": ({"text": """##
## Networking
##
listeners.tcp.local    = 127.0.0.1:5672
listeners.tcp.local_v6 = ::1:5672
handshake_timeout = 10000
## Security
loopback_users.guest = true
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
## Resources
vm_memory_high_watermark.relative = 0.6
vm_memory_high_watermark_paging_ratio = 0.5
disk_free_limit.relative = 1.0
## Logs
log.dir = /var/log/rabbitmq
log.file = rabbit.log
log.file.level = info
log.file.rotation.date = $D0
log.file.rotation.size = 10485760
log.file.rotation.count = 5
log.syslog = true
log.syslog.identity = rabbitmq
log.syslog.facility = daemon
management.tcp.port = 15672
management.db_cache_multiplier = 5
"""}, (15, 4, 1, 0), ["'log.syslog = true' cannot be used: lines go to the console and to files alone"]),
    "hardened by a checklist": ({"text": """loopback_users = none
password_hashing_module = rabbit_password_hashing_sha512
credential_validator.validation_backend = rabbit_credential_validator_min_password_length
credential_validator.min_length = 30
management.hsts.policy = max-age=31536000; includeSubDomains
management.csp.policy = default-src 'self'
management.headers.content_type_options = nosniff
management.headers.frame_options = DENY
management.login_session_timeout = 10
management.disable_stats = false
management.restrictions.operator_policy_changes.disabled = true
default_limits.vhosts.1.pattern = .*
default_limits.vhosts.1.max_connections = 5000
default_policies.operator.caps.queue_pattern = .*
default_policies.operator.caps.max_length = 1000000
deprecated_features.permit.transient_nonexcl_queues = false
log.console.formatter = json
max_mesage_size = 1048576
"""}, (9, 5, 3, 1), [
        "'password_hashing_module = rabbit_password_hashing_sha512' cannot be used: new passwords are hashed with salted SHA-256",
        "rules for passwords are not enforced yet",
        "administrators may change operators' policies",
        "unknown key 'max_mesage_size'"]),
}

# Files as charts, operators, images and guides make them, with what --check-config counts: served, without effect, refused, unknown.
WHOLE = {
    "a chart that forms a cluster": ("""default_user = user
default_pass = s3cret
default_vhost = /
disk_free_limit.relative = 1.0
cluster_partition_handling = autoheal
loopback_users.guest = false
listeners.tcp.default = 5672
management.tcp.ip = 0.0.0.0
management.path_prefix = /rabbit
cluster_formation.peer_discovery_backend = rabbit_peer_discovery_k8s
cluster_formation.k8s.host = kubernetes.default
cluster_formation.node_cleanup.interval = 10
queue_master_locator = min-masters
prometheus.tcp.port = 9419
log.console.formatter = json
""", None, (10, 4, 1, 0)),
    "the same for one node": ("""default_user = user
default_pass = s3cret
loopback_users.guest = false
listeners.tcp.default = 5672
cluster_formation.peer_discovery_backend = classic_config
cluster_partition_handling = pause_minority
vm_memory_high_watermark.relative = 0.5
disk_free_limit.absolute = 2GB
log.console = true
log.console.level = warning
log.file = false
""", None, (9, 2, 0, 0)),
    "an image with definitions elsewhere": ("""log.console = true
log.default.level = info
management_agent.disable_metrics_collector = false
consumer_timeout = 31622400000
management.rates_mode = basic
collect_statistics_interval = 30000
heartbeat = 0
channel_max = 0
""", None, (5, 3, 0, 0)),
    "another authentication backend, and TLS of old": ("""auth_backends.1 = ldap
auth_backends.2 = internal
auth_ldap.servers.1 = ldap.example
auth_ldap.user_dn_pattern = cn=${username},dc=example
ssl_options.versions.1 = tlsv1.2
ssl_options.versions.2 = tlsv1.1
ssl_options.ciphers.1 = ECDHE-RSA-AES256-GCM-SHA384
ssl_options.ciphers.2 = DHE-RSA-AES256-SHA256
proxy_protocol = true
""", None, (3, 3, 3, 0)),
    "with MQTT and STOMP": ("""mqtt.listeners.tcp.default = 1883
mqtt.allow_anonymous = false
mqtt.vhost = /
stomp.listeners.tcp = none
web_mqtt.tcp.port = 15675
listeners.tcp.1 = 5672
""", None, (1, 3, 2, 0)),
    "with an advanced.config": ("""listeners.tcp.default = 5672
default_user = one
""", """%% as it stands in many places
[
 {rabbit, [
   {default_user, <<"two">>}, {default_pass, <<"a#b">>},
   {tcp_listeners, [5673]},
   {log_levels, [{connection, info}]},
   {ssl_options, [{verify, verify_peer}, {fail_if_no_peer_cert, true}, {versions, ['tlsv1.2', 'tlsv1.3']}]}]},
 {rabbitmq_management, [{listener, [{port, 15672}]}, {load_definitions, "/dev/null/none"}]},
 {kernel, [{inet_dist_listen_min, 25672}]}
].
""", (11, 2, 1, 0)),
    "with slips of the pen": ("""listener.tcp.default = 5672
vm_memory_high_watermark = 0.4
default_password = x
heartbeat = 60
""", None, (1, 0, 0, 3)),
}
