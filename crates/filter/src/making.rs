//! Macros as they come: names that are fit, the object of JSON that says one, and the check of its expression.

use crate::calls::{calls, is_built_in};
use crate::error::Error;
use crate::found::{Found, Room};
use crate::json;
use crate::lexer::is_regular;
use crate::limits::Limits;
use crate::macros::{Macro, Macros};
use crate::parser;
use crate::path::{Path, Paths, Step};
use crate::value::Value;
use std::collections::BTreeSet;
use std::fmt;

/// The fault of a macro, apart from its expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MacroFault {
    /// A name, of the macro or of a parameter, that is no letter with letters, digits and underscores behind it.
    NoName(String),
    /// The name of a function or a word of the language, in any case.
    BuiltIn(String),
    /// Two parameters of one name.
    Twice(String),
    /// A value that is no JSON, no object, or that goes on behind it.
    NoObject,
    /// An object without an expression that is a text.
    NoText,
    /// Parameters that are no list of texts.
    NoTexts,
    /// More parameters than [`Limits::macro_parameters_max`].
    TooManyParameters {
        /// The bound.
        parameters_max: usize,
    },
}

impl Macro {
    /// A macro with a fit name and fit parameters; its expression is not read.
    ///
    /// # Errors
    /// The first name that is not fit.
    pub fn new(name: &str, parameters: &[&str], text: &str) -> Result<Macro, MacroFault> {
        check_name(name)?;
        let parameters_max = Limits::content().macro_parameters_max;
        if parameters.len() > parameters_max {
            return Err(MacroFault::TooManyParameters { parameters_max });
        }
        for (place, parameter) in parameters.iter().enumerate() {
            check_name(parameter)?;
            if parameters[..place].contains(parameter) {
                return Err(MacroFault::Twice((*parameter).to_owned()));
            }
        }
        let parameters = parameters.iter().map(|parameter| (*parameter).into()).collect();
        Ok(Macro { name: name.into(), parameters, text: text.into() })
    }

    /// A macro as an object of JSON says it: `{"parameters": ["low"], "expression": "/qty * /price > low"}`. Without
    /// parameters it has none; other members mean nothing, and lists in a list are as in expressions.
    ///
    /// # Errors
    /// See [`Macro::new`], and what is wrong with the object.
    pub fn read(name: &str, object: &str) -> Result<Macro, MacroFault> {
        let member = |steps: &[Step]| Path::new(steps.to_vec()).expect("a short one");
        let (text, parameters) = (Step::Name("expression".to_owned()), Step::Name("parameters".to_owned()));
        let paths = Paths::new([&member(&[text]), &member(&[parameters, Step::Each])]);
        let room = Room::default();
        let mut found = Found::new(paths.slots(), &room).expect("an empty room");
        let (_, is_whole) = json::find(object.as_bytes(), &paths, object.len(), &mut found);
        let [text, parameters] = found.finish(is_whole) else { unreachable!("two paths were looked for") };
        if !is_whole || !object.trim_ascii_start().starts_with('{') {
            return Err(MacroFault::NoObject);
        }
        let text_of = |value| match value {
            Value::Bytes(text) => str::from_utf8(text).ok(),
            _ => None,
        };
        let text = text_of(text.value).ok_or(MacroFault::NoText)?;
        let parameters: Option<Vec<&str>> = match parameters.value {
            Value::Null => Some(Vec::new()),
            Value::Several(all) => all.iter().map(|value| text_of(*value)).collect(),
            _ => None,
        };
        Macro::new(name, &parameters.ok_or(MacroFault::NoTexts)?, text)
    }

    /// Whether its expression can be read where these macros are known, by the limits of [contents](Limits::content).
    ///
    /// # Errors
    /// The fault of the expression and its place in it.
    pub fn check(&self, macros: &Macros) -> Result<(), Error> {
        parser::check_macro(self, macros)
    }

    /// The macros that its expression uses, by their [folded] names.
    pub fn uses(&self) -> BTreeSet<Box<str>> {
        calls(&self.text)
    }
}

fn check_name(name: &str) -> Result<(), MacroFault> {
    if is_built_in(name) {
        return Err(MacroFault::BuiltIn(name.to_owned()));
    }
    if is_regular(name) { Ok(()) } else { Err(MacroFault::NoName(name.to_owned())) }
}

impl fmt::Display for MacroFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MacroFault::NoName(name) => {
                write!(out, "'{name}' is no name: it takes a letter, then letters, digits and underscores")
            }
            MacroFault::BuiltIn(name) => write!(out, "{name} is a word or a function of the language"),
            MacroFault::Twice(name) => write!(out, "two parameters have the name {name}"),
            MacroFault::NoObject => out.write_str("it is to be an object"),
            MacroFault::NoText => out.write_str("expression is to be a text"),
            MacroFault::NoTexts => out.write_str("parameters are to be a list of texts"),
            MacroFault::TooManyParameters { parameters_max } => {
                write!(out, "more than {parameters_max} parameters")
            }
        }
    }
}

impl std::error::Error for MacroFault {}
