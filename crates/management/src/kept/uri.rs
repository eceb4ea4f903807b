//! Addresses of brokers, `amqp://USER:PASSWORD@HOST:PORT/VHOST?heartbeat=5`, as RabbitMQ's own client takes them.

use crate::policies::term;
use serde_json::Value;

/// Parameters that are whole numbers.
const NUMBERS: [&str; 5] = ["heartbeat", "channel_max", "frame_max", "connection_timeout", "depth"];

/// Those that are so over TLS alone, and nobody's otherwise.
const OF_TLS: [&str; 2] = ["depth", "fail_if_no_peer_cert"];

/// Checks one address: adds the line of its error.
pub(super) fn check(key: &str, value: &Value, lines: &mut Vec<String>) {
    let Value::String(text) = value else {
        return lines.push(format!("{key} should be list, actually was {}", term(value)));
    };
    let Err(why) = read(text) else { return };
    let shown = quoted(text);
    let front = format!("{shown} not a valid URI: {{");
    let line = format!("{front}{why},{}}}", if text.is_empty() { "[]" } else { &shown });
    // Erlang begins a new line one column before the last.
    lines.push(match line.chars().count() + 1 < super::COLUMNS {
        true => line,
        false => format!("{front}{why},\n{:indent$}{shown}}}", "", indent = front.chars().count()),
    });
}

fn quoted(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { format!("\"{text}\"") }
}

/// Reads an address, or gives its error in RabbitMQ's words.
fn read(text: &str) -> Result<(), String> {
    let (scheme, rest) = text.split_once(':').ok_or("{unable_to_parse_uri,no_scheme}")?;
    let scheme = scheme.to_ascii_lowercase();
    if !["amqp", "amqps"].contains(&scheme.as_str()) {
        let shown = if scheme.is_empty() { "[]".to_owned() } else { quoted(&scheme) };
        return Err(format!("{{unexpected_uri_scheme,{shown}}}"));
    }
    let rest = rest.strip_prefix("//").ok_or("{unable_to_parse_uri,no_authority}")?;
    let rest = rest.split('#').next().unwrap_or_default();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    check_escapes(user)?;
    // Colons within brackets are of an address of version 6.
    let behind = host.rsplit(']').next().unwrap_or(host);
    let is_whole = !host.starts_with('[') || host.contains(']');
    if is_whole && let Some((_, port)) = behind.split_once(':') {
        check_port(text, port)?;
    }
    check_escapes(path)?;
    if path.contains('/') {
        return Err(format!("{{invalid_vhost,{}}}", quoted(path)));
    }
    query.split('&').filter_map(|field| field.split_once('=')).try_for_each(|(name, value)| {
        if OF_TLS.contains(&name) && scheme == "amqp" {
            return Ok(());
        }
        let is_right = match name {
            name if NUMBERS.contains(&name) => value.parse::<i64>().is_ok(),
            "fail_if_no_peer_cert" => ["true", "false"].contains(&value),
            _ => true,
        };
        let kind =
            if OF_TLS.contains(&name) { "invalid_ssl_parameter" } else { "invalid_amqp_params_parameter" };
        if is_right { Ok(()) } else { Err(format!("{{{kind},{name},{}}}", quoted(value))) }
    })
}

fn check_port(text: &str, port: &str) -> Result<(), String> {
    if port.is_empty() {
        return Ok(());
    }
    match port.parse::<i64>() {
        Ok(0..=65_535) => Ok(()),
        Ok(number) => Err(format!("{{port_out_of_range,{number}}}")),
        Err(_) => Err(format!("{{unable_to_parse_uri,{{malformed_uri,{}}}}}", quoted(text))),
    }
}

/// Each `%` stands in front of two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%') {
        let digits = &bytes[at + 1..bytes.len().min(at + 3)];
        if digits.len() < 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
            let shown: Vec<String> = digits.iter().map(u8::to_string).collect();
            return Err(format!("{{invalid_entitiy,['%',{}]}}", shown.join(",")));
        }
    }
    Ok(())
}
