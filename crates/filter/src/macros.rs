//! Macros: expressions that have a name and parameters, `big(low) := /qty * /price > low`.
//!
//! A call of one is expanded when an expression is parsed ([`crate::Expression::parse_at`]): trees have no calls in
//! them, so that nothing behind the parser knows of macros. A macro keeps its text, which is parsed anew at each call:
//! limits of the site hold for what it stands for there, and an argument is a tree and no text, which cannot change
//! what is around it.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A macro: its name, its parameters and its expression, all as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Macro {
    pub(crate) name: Box<str>,
    pub(crate) parameters: Box<[Box<str>]>,
    pub(crate) text: Box<str>,
}

/// Macros that expressions of a site may use, by their names in any case.
#[derive(Clone, Debug, Default)]
pub struct Macros(BTreeMap<Box<str>, Arc<Macro>>);

static NONE: Macros = Macros(BTreeMap::new());

/// A name as macros are found by: in any case it is the same.
pub fn folded(name: &str) -> Box<str> {
    name.to_ascii_uppercase().into()
}

impl Macro {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its parameters.
    pub fn parameters(&self) -> &[Box<str>] {
        &self.parameters
    }

    /// Its expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Bytes of memory, near enough.
    pub fn memory(&self) -> usize {
        let parameters = self.parameters.iter().map(|parameter| size_of::<Box<str>>() + parameter.len());
        size_of::<Macro>() + self.name.len() + self.text.len() + parameters.sum::<usize>()
    }
}

impl Macros {
    /// None, for sites that know no macros.
    pub fn none() -> &'static Macros {
        &NONE
    }

    /// The macro of this name, in any case.
    pub fn get(&self, name: &str) -> Option<&Arc<Macro>> {
        // Most sites have none.
        if self.0.is_empty() { None } else { self.0.get(&folded(name)) }
    }

    /// Has a macro, in place of one of the same name.
    pub fn set(&mut self, own: Macro) {
        self.0.insert(folded(&own.name), Arc::new(own));
    }

    /// Forgets the macro of this name, in any case.
    pub fn clear(&mut self, name: &str) {
        self.0.remove(&folded(name));
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Macro>> {
        self.0.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
