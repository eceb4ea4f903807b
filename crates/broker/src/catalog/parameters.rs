//! Parameters of the whole node: names with values that only who set them understands, in JSON.

use super::{Actor, Catalog, Change, Plan, Refusal};

/// Parameters there may be.
const PARAMETERS_MAX: usize = 1000;

/// Bytes of a value.
const VALUE_BYTES_MAX: usize = 64 << 10;

impl Catalog {
    /// Sets a parameter, or clears it.
    ///
    /// # Errors
    /// No administrator; too many or too large.
    pub(super) fn set_parameter(&self, by: &Actor, name: &str, value: Option<&str>) -> Result<Plan, Refusal> {
        self.check_administrator(by)?;
        let before = self.parameters.get(name).map(|value| &**value);
        if before == value {
            return Ok(Plan::nothing());
        }
        if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            return Err(Refusal::precondition(format!("a parameter has at most {VALUE_BYTES_MAX} bytes")));
        }
        if before.is_none() && self.parameters.len() >= PARAMETERS_MAX {
            return Err(Refusal::precondition(format!(
                "there are at most {PARAMETERS_MAX} global parameters"
            )));
        }
        Ok(Plan::one(Change::SetParameter { name: name.into(), value: value.map(Box::from) }))
    }

    pub(super) fn apply_parameter(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => drop(self.parameters.insert(name.into(), value.into())),
            None => drop(self.parameters.remove(name)),
        }
    }

    /// The parameters of the whole node, by name: JSON.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (&**name, &**value))
    }
}
