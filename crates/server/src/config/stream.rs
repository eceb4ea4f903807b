//! Settings of the stream protocol.

use super::value::{boolean, bytes, count, integer};
use adapters::stream::{Arrivals, StreamSettings};
use std::sync::Arc;

/// `stream.*`, listeners apart; options that were not given are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Bytes of a frame.
    pub frame_max: Option<u32>,
    /// Seconds, offered to clients; 0: none.
    pub heartbeat_s: Option<u32>,
    /// Messages of a connection that may wait for their confirm.
    pub initial_credits: Option<u32>,
    /// How many more than this may come when a connection that was held is read again.
    pub credits_required_for_unblocking: Option<u32>,
    /// Where clients are told to go.
    pub advertised_host: Option<String>,
    /// The port they are told.
    pub advertised_port: Option<u16>,
    /// The same for those that come over TLS.
    pub advertised_tls_host: Option<String>,
    /// The same for those that come over TLS.
    pub advertised_tls_port: Option<u16>,
    /// Connections of a listener; the inner none: any number.
    pub connections_max: Option<Option<u32>>,
    /// Partitions of a super stream that is created; the inner none: any number.
    pub partitions_max: Option<Option<u32>>,
    /// Bytes of a batch that is uncompressed.
    pub uncompressed_bytes_max: Option<u32>,
    /// Readers are read for ahead of need.
    pub reads_ahead: Option<bool>,
    /// Bytes read at a time, at most.
    pub read_bytes_max: Option<u32>,
}

impl StreamOptions {
    /// Takes `stream.<name>`.
    ///
    /// # Errors
    /// The values that would be accepted, or the reason why none is.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = |least, most| integer(value, least, most).map(|number| number as u32);
        let port = || integer(value, 1, 65_535).map(|port| port as u16);
        match name {
            "frame_max" => self.frame_max = Some(number(8192, 1 << 30)?),
            "heartbeat" => self.heartbeat_s = Some(number(0, 1 << 30)?),
            "initial_credits" => self.initial_credits = Some(number(1, 1 << 30)?),
            "credits_required_for_unblocking" => {
                self.credits_required_for_unblocking = Some(number(0, 1 << 30)?);
            }
            "advertised_host" => self.advertised_host = Some(value.to_owned()),
            "advertised_port" => self.advertised_port = Some(port()?),
            "advertised_tls_host" => self.advertised_tls_host = Some(value.to_owned()),
            "advertised_tls_port" => self.advertised_tls_port = Some(port()?),
            "max_connections" => self.connections_max = Some(count(value)?),
            "max_super_stream_partitions" => self.partitions_max = Some(count(value)?),
            "max_uncompressed_sub_entry_batch_size" => {
                self.uncompressed_bytes_max = Some(number(0, u64::from(u32::MAX))?);
            }
            "read_ahead" => self.reads_ahead = Some(boolean(value)?),
            "read_ahead_limit" => {
                self.read_bytes_max = Some(u32::try_from(bytes(value)?.max(1)).unwrap_or(u32::MAX))
            }
            "ssl_cert_login" => drop(boolean(value)?),
            _ => {
                return Err("this option is not served: remove it. Served are stream.listeners.tcp.N, stream.listeners.ssl.N, \
                            stream.frame_max, .heartbeat, .initial_credits, .credits_required_for_unblocking, \
                            .advertised_host, .advertised_port, .advertised_tls_host, .advertised_tls_port, \
                            .max_connections, .max_super_stream_partitions, .max_uncompressed_sub_entry_batch_size, \
                            .read_ahead, .read_ahead_limit"
                    .into());
            }
        }
        Ok(())
    }

    /// Puts what was said into `settings`.
    pub fn apply(&self, settings: &mut StreamSettings) {
        fn put<T: Clone>(said: &Option<T>, to: &mut T) {
            if let Some(value) = said {
                to.clone_from(value);
            }
        }
        put(&self.frame_max, &mut settings.limits.frame_max);
        put(&self.heartbeat_s, &mut settings.limits.heartbeat_s);
        put(&self.initial_credits, &mut settings.initial_credits);
        put(&self.credits_required_for_unblocking, &mut settings.credits_required_for_unblocking);
        put(&self.partitions_max, &mut settings.partitions_max);
        put(&self.uncompressed_bytes_max, &mut settings.uncompressed_bytes_max);
        if let Some(most) = self.connections_max {
            settings.arrivals = Arc::new(Arrivals::new(most));
        }
        if let Some(host) = &self.advertised_host {
            settings.plain.host = host.as_str().into();
        }
        // As with RabbitMQ, over TLS the same host is told where nothing else is said.
        if let Some(host) = self.advertised_tls_host.as_ref().or(self.advertised_host.as_ref()) {
            settings.secure.host = host.as_str().into();
        }
        settings.plain.port = self.advertised_port;
        settings.secure.port = self.advertised_tls_port;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_put_where_they_work() {
        let mut options = StreamOptions::default();
        for (name, value) in [
            ("frame_max", "16384"),
            ("heartbeat", "5"),
            ("initial_credits", "100"),
            ("credits_required_for_unblocking", "20"),
            ("advertised_host", "lb.example.org"),
            ("advertised_port", "1234"),
            ("max_connections", "7"),
            ("max_super_stream_partitions", "infinity"),
            ("max_uncompressed_sub_entry_batch_size", "1000"),
            ("read_ahead", "false"),
            ("read_ahead_limit", "128KiB"),
        ] {
            options.set(name, value).unwrap();
        }
        assert_eq!(options.connections_max, Some(Some(7)));
        assert_eq!((options.reads_ahead, options.read_bytes_max), (Some(false), Some(128 << 10)));
        let mut settings = StreamSettings::new("rabbit@box");
        options.apply(&mut settings);
        assert_eq!((settings.limits.frame_max, settings.limits.heartbeat_s), (16_384, 5));
        assert_eq!((settings.initial_credits, settings.credits_required_for_unblocking), (100, 20));
        assert_eq!((&*settings.plain.host, settings.plain.port), ("lb.example.org", Some(1234)));
        assert_eq!((&*settings.secure.host, settings.secure.port), ("lb.example.org", None));
        assert_eq!((settings.partitions_max, settings.uncompressed_bytes_max), (None, 1000));
        let mut usual = StreamSettings::new("rabbit@box");
        StreamOptions::default().apply(&mut usual);
        assert_eq!(
            (&*usual.plain.host, usual.initial_credits, usual.partitions_max),
            ("box", 50_000, Some(1000))
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |name: &str, value: &str| StreamOptions::default().set(name, value).unwrap_err();
        assert!(refused("frame_max", "100").contains("8192"));
        assert!(refused("max_connections", "some").contains("infinity"));
        assert!(refused("max_streams", "5").contains("Served are"));
        assert!(refused("advertised_port", "0").contains("1"));
    }
}
