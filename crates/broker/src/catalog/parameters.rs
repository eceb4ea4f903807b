//! Parameters of the node and of virtual hosts: names with values in JSON, which only the component that they are of understands.
//!
//! Those of components that are served are no parameters here: policies and limits have records of their own. What is kept is for
//! components that are not served yet, so that definitions lose nothing on their way through a node; and
//! [macros](super::macros).

use super::macros::FILTER_MACRO;
use super::plan::check_length;
use super::wire::LIMITS;
use super::{Actor, Catalog, Change, Object, Plan, Reason, Refusal, VhostId};

impl Catalog {
    /// Sets a parameter of the node, or clears it.
    ///
    /// # Errors
    /// No administrator; too many or too large.
    pub(super) fn set_parameter(&self, by: &Actor, name: &str, value: Option<&str>) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let before = self.parameters.get(name).map(|value| &**value);
        if before == value {
            return Ok(Plan::nothing());
        }
        check_value(value)?;
        if before.is_none() && self.parameters.len() >= LIMITS.parameters_max {
            let most = LIMITS.parameters_max;
            return Err(Refusal::precondition(
                Reason::LimitReached(Object::Parameter),
                format!("there are at most {most} global parameters"),
            ));
        }
        Ok(Plan::one(Change::SetParameter { name: name.into(), value: value.map(Box::from) }))
    }

    /// Sets a parameter of a virtual host, of a component and with a name; or clears it.
    ///
    /// # Errors
    /// Neither administrator nor policymaker; no such virtual host; too many or too large; a macro that may not be.
    pub(super) fn set_vhost_parameter(
        &self,
        by: &Actor,
        vhost: &str,
        key: [&str; 2],
        value: Option<&str>,
    ) -> Result<Plan, Refusal> {
        self.check_policymaker(by, super::PolicyKind::User)?;
        let id = self.known_vhost(vhost)?;
        let Some(kept) = self.host(id).map(|host| &host.parameters) else { return Ok(Plan::nothing()) };
        let [component, name] = key.map(Box::<str>::from);
        let before = kept.get(&(component.clone(), name.clone())).map(|value| &**value);
        if before == value {
            return Ok(Plan::nothing());
        }
        check_length("component", &component)?;
        check_length("parameter name", &name)?;
        check_value(value)?;
        if *component == *FILTER_MACRO {
            self.check_macro(id, &name, before, value)?;
        }
        if before.is_none() && kept.len() >= LIMITS.parameters_max {
            let most = LIMITS.parameters_max;
            return Err(Refusal::precondition(
                Reason::LimitReached(Object::Parameter),
                format!("vhost '{vhost}' has as many parameters as it may: {most}"),
            ));
        }
        let value = value.map(Box::from);
        Ok(Plan::one(Change::SetVhostParameter { vhost: id, component, name, value }))
    }

    pub(super) fn apply_parameter(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => drop(self.parameters.insert(name.into(), value.into())),
            None => drop(self.parameters.remove(name)),
        }
    }

    pub(super) fn apply_vhost_parameter(&mut self, vhost: VhostId, key: [&str; 2], value: Option<&str>) {
        let Some(host) = self.vhosts.get_mut(&vhost) else { return };
        let [component, name] = key;
        let own = (component.into(), name.into());
        let before = match value {
            Some(value) => host.parameters.insert(own, value.into()),
            None => host.parameters.remove(&own),
        };
        if component == FILTER_MACRO {
            host.macro_changed(name, before.as_deref(), value);
        }
    }

    /// The parameters of the whole node, by name: JSON.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The parameters of a virtual host, by component and name: both, and JSON.
    pub fn vhost_parameters(&self, vhost: VhostId) -> impl Iterator<Item = (&str, &str, &str)> {
        let kept = self.host(vhost).into_iter().flat_map(|host| &host.parameters);
        kept.map(|((component, name), value)| (&**component, &**name, &**value))
    }
}

fn check_value(value: Option<&str>) -> Result<(), Refusal> {
    let most = LIMITS.parameter_bytes_max;
    if value.is_some_and(|value| value.len() > most) {
        return Err(Refusal::precondition(
            Reason::TooLarge(Object::Parameter),
            format!("a parameter has at most {most} bytes"),
        ));
    }
    Ok(())
}
