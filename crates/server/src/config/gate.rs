//! Settings of the HTTP API's gate, by origins of pages, names and path: `management.cors.*`, `management.hosts.N`,
//! `management.path_prefix`, `management.hsts.policy`.

use management::{Authority, GateRules, Request};

/// Takes an origin of pages that may use the API. A slash at its end is none of it.
///
/// # Errors
/// The values that would be accepted.
pub fn add_origin(rules: &mut GateRules, name: &str, value: &str) -> Result<(), String> {
    let origin = value.strip_suffix('/').unwrap_or(value);
    let host = origin.split_once("://").map(|(_, host)| host);
    match value == "*" || host.is_some_and(|host| Authority::read(host).is_some()) {
        true => {
            rules.origins.insert(name.to_owned(), origin.to_owned());
            Ok(())
        }
        false => Err("accepted values: an origin such as https://example.org:8443, or * for all".into()),
    }
}

/// Takes a name that the node is reached by.
///
/// # Errors
/// The values that would be accepted.
pub fn add_host(rules: &mut GateRules, name: &str, value: &str) -> Result<(), String> {
    let host = Authority::read(value).ok_or(
        "accepted values: a name as browsers show it, such as rabbit.example.org or rabbit.example.org:8080",
    )?;
    rules.hosts.insert(name.to_owned(), host);
    Ok(())
}

/// Takes what browsers are told about coming over TLS (RFC 6797), in answers over TLS.
///
/// # Errors
/// The values that would be accepted.
pub fn set_transport_policy(rules: &mut GateRules, value: &str) -> Result<(), String> {
    let has_age = value.split(';').any(|part| {
        let age = part.trim().to_ascii_lowercase();
        age.strip_prefix("max-age=").is_some_and(|age| age.trim_matches('"').parse::<u64>().is_ok())
    });
    if !has_age || !value.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return Err("accepted values: a policy such as max-age=31536000; includeSubDomains".into());
    }
    rules.transport_policy = Some(value.to_owned());
    Ok(())
}

/// Takes the path that is before `/api`, with or without slashes around it.
///
/// # Errors
/// The values that would be accepted.
pub fn set_prefix(rules: &mut GateRules, value: &str) -> Result<(), String> {
    let path = value.trim_matches('/');
    let read = Request::new("GET", path, Vec::new(), true).filter(|_| !path.contains(['?', '#']));
    let read = read.ok_or("accepted values: a path such as /rabbitmq")?;
    rules.prefix = read.path.into_iter().filter(|segment| !segment.is_empty()).collect();
    Ok(())
}
