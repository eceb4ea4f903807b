//! The users of a broker of our own for a load beside a tenant: both have the default virtual host.

/// The load's user.
pub const BYSTANDER: &str = "bench-bystander";

/// The tenant.
pub const TENANT: &str = "bench-tenant";

/// The password of both.
pub const PASSWORD: &str = "bench";

/// Settings of the broker that make them.
pub fn settings() -> Vec<String> {
    let user = |name: &str| {
        [
            format!("default_users.{name}.vhost_pattern=.*"),
            format!("default_users.{name}.password={PASSWORD}"),
        ]
    };
    [user(BYSTANDER), user(TENANT)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_of_our_own_has_both_users() {
        let settings = settings();
        assert_eq!(settings.len(), 4);
        assert!(settings.contains(&"default_users.bench-tenant.password=bench".to_owned()), "{settings:?}");
    }
}
