//! Import of definitions: objects that are named are made or changed; those that are not named stay as they are.
//!
//! A file is rehearsed before it is imported: where an entry would be refused, all that are refused are told by name,
//! and nothing is changed. An object that is there already is no error, so that the same file can be imported again.
//!
//! Things of one kind do not depend on each other: several are under way at once, and a kind begins when those before it are
//! done. Changes of the catalog are made in the file's order all the same.

use crate::call::Call;
use crate::import::{Import, Step, Taker, refuse};
use crate::node::{Action, Node, Trouble};
use crate::rehearsal::Rehearsal;
use crate::report::{Entry, REMARKS, Report};
use crate::request::{Method, Request};
use crate::response::{Answer, Response};
use crate::rows::Rows;
use crate::underway::Underway;
use crate::{export, form, trail, users};
use base::hash::SetByBytes;
use broker::catalog::Catalog;
use std::cell::RefCell;

/// Bytes of a place to go to when an upload is imported.
const REDIRECT_BYTES_MAX: usize = 1000;

/// `/api/definitions[/VHOST]`.
pub(crate) fn definitions<N: Node>(call: &Call<'_, N>, only: Option<&str>) -> Answer {
    if call.request.method != Method::Post {
        return export::export(call, only);
    }
    if let Some(name) = only
        && call.caller.vhost(name).is_err()
    {
        return Err(Response::error(404, "not_found", "vhost_not_found"));
    }
    let options = Options::of(call.request)?;
    let upload = Upload::of(call.request)?;
    let rows = Rows::read(upload.text).map_err(|_| no_json())?;
    let most = call.node.about().limits.import_told_max;
    if !options.is_dry_run {
        call.tell("Asked to import definitions");
    }
    let strips_mirrors = options.strips_mirrors;
    let report = RefCell::new(Report::new(most));
    let import = Import { call, only, strips_mirrors, report: &report };
    import.walk(&rows, &mut Rehearsal::new(call, &report)?)?;
    let rehearsed = report.into_inner();
    if !rehearsed.is_clean() {
        if !options.is_dry_run {
            let count = rehearsed.refused_count();
            call.tell(&format!("Definitions were not imported: entries that are refused: {count}"));
        }
        return Err(rehearsed.refusal(false));
    }
    if options.is_dry_run {
        return Ok(rehearsed.told(false));
    }
    drop(rehearsed);
    let report = RefCell::new(Report::new(most));
    let import = Import { call, only, strips_mirrors, report: &report };
    import.walk(&rows, &mut Doing::new(call, &report))?;
    let done = report.into_inner();
    let remarks = done.lines().into_iter();
    remarks.for_each(|line| call.node.log(format!("Importing definitions: {}", trail::on_one_line(&line))));
    call.tell(&done.imported());
    if !done.is_clean() {
        return Err(done.refusal(true));
    }
    let response = match upload.redirect {
        _ if options.is_told => done.told(true),
        Some(place) => Response::empty(303).with("location", place),
        None => Response::empty(204),
    };
    Ok(match done.header() {
        Some(remarks) => response.with(REMARKS, remarks),
        None => response,
    })
}

fn no_json() -> Response {
    Response::bad_request("failed_to_parse_json")
}

/// Options of an import beside the file.
struct Options {
    /// Nothing is to be changed.
    is_dry_run: bool,
    /// All that came to be is to be told.
    is_told: bool,
    /// Keys of mirrored classic queues are to be left out.
    strips_mirrors: bool,
}

impl Options {
    fn of(request: &Request) -> Result<Options, Response> {
        // A misspelt value must not have the file imported.
        let says = |name: &str| match request.asked(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(Response::bad_request(format!("{name} is true or false, not '{other}'"))),
        };
        let strips_mirrors = match request.asked("strip") {
            None => false,
            Some("cmq") => true,
            Some(other) => return Err(Response::bad_request(format!("strip is cmq, not '{other}'"))),
        };
        Ok(Options { is_dry_run: says("dry_run")?, is_told: says("report")?, strips_mirrors })
    }
}

/// A file of definitions as it came.
struct Upload<'r> {
    text: &'r [u8],
    /// Where a browser is to go afterwards.
    redirect: Option<String>,
}

impl<'r> Upload<'r> {
    fn of(request: &'r Request) -> Result<Upload<'r>, Response> {
        let content_type = request.content_type.as_deref().unwrap_or_default();
        match &*form::essence(content_type) {
            "application/json" => Ok(Upload { text: &request.body, redirect: None }),
            "multipart/form-data" => {
                let bad = || Response::bad_request("the body is no form with a file in it");
                let parts = form::parts(content_type, &request.body).ok_or_else(bad)?;
                let text = *parts.get("file").ok_or_else(no_json)?;
                let redirect = parts.get("redirect").and_then(|place| str::from_utf8(place).ok());
                let is_place = |place: &&str| {
                    place.len() <= REDIRECT_BYTES_MAX && place.bytes().all(|byte| byte.is_ascii_graphic())
                };
                Ok(Upload { text, redirect: redirect.filter(is_place).map(str::to_owned) })
            }
            _ if request.is_own => Ok(Upload { text: &request.body, redirect: None }),
            _ => Err(Response::error(
                415,
                "unsupported_media_type",
                "definitions come as application/json, or as the file of a multipart/form-data",
            )),
        }
    }
}

/// Has the node import.
struct Doing<'a, 'c, N> {
    call: &'a Call<'c, N>,
    report: &'a RefCell<Report>,
    underway: Underway<'a>,
    /// Queues that are under way.
    declared: SetByBytes<(String, String)>,
}

impl<'a, 'c, N: Node> Doing<'a, 'c, N> {
    fn new(call: &'a Call<'c, N>, report: &'a RefCell<Report>) -> Doing<'a, 'c, N> {
        let underway = Underway::new(call.node.about().limits.import_begun_max);
        Doing { call, report, underway, declared: SetByBytes::default() }
    }
}

impl<N: Node> Taker for Doing<'_, '_, N> {
    fn take(&mut self, entry: Entry, step: Step) -> Result<(), Response> {
        if let Step::Act(vhost, Action::DeclareQueue { name, .. }) = &step
            && !self.declared.insert((vhost.clone(), name.clone()))
        {
            // The first of a name counts, and they are declared in no order.
            self.underway.finish()?;
        }
        self.underway.make_room()?;
        let is_declaration = step.is_declaration();
        let instead = if let Step::Request(op) = &step { users::instead(op) } else { None };
        let begun = match step {
            Step::Request(op) => self.call.begin_request(op),
            Step::Act(vhost, action) => self.call.node.begin_act(&self.call.caller.login, &vhost, action),
        };
        let (report, call) = (self.report, self.call);
        self.underway.add(Box::new(move || match users::or_instead(call, begun(), instead) {
            // The others go on.
            Err(Trouble::Refused(refusal)) => {
                refuse(&mut report.borrow_mut(), entry, is_declaration, &refusal);
                Ok(())
            }
            Err(Trouble::Broken(why)) => Err(Trouble::Broken(format!("{}: {why}", entry.text()))),
            other => other,
        }));
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Response> {
        self.declared = SetByBytes::default();
        Ok(self.underway.finish()?)
    }

    fn look<T: Send + 'static>(
        &mut self,
        look: impl FnOnce(&Catalog) -> T + Send + 'static,
    ) -> Result<T, Response> {
        self.underway.finish()?;
        Ok(self.call.node.look(look)?)
    }
}
