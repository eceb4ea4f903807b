"""Configurations in the forms that charts, operators, images and guides give them."""

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
""", None, (3, 1, 5, 0)),
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
