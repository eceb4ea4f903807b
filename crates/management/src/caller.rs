//! The user of a request, and its rights to see and to do.
//!
//! A user needs a tag to be answered at all; the tag says how far it goes, permissions say in which virtual hosts.

use crate::node::{Login, Node};
use crate::request::{Request, Tried};
use crate::response::{Attempt, Response};
use broker::access::{Claim, Judged, Origin};
use broker::catalog::{Catalog, VhostId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The user name of the node itself, that of RabbitMQ's tools.
pub const TOOL_USER: &str = "rmq-cli";

/// A user that was let in.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The user's name and password, for requests to the broker in that name.
    pub login: Login,
    /// The user's tags.
    pub tags: Vec<String>,
    /// The virtual hosts there are: shared with the catalog, which has many.
    vhosts: Arc<BTreeMap<Arc<str>, VhostId>>,
    /// Those that the user has permissions in.
    entered: Arc<BTreeSet<VhostId>>,
}

/// The rights that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing, not even a user.
    Nobody,
    /// A user of the management API.
    User,
    /// One that sees the virtual host of the path.
    Vhost,
    /// One that may watch everything.
    Monitor,
    /// One that may set policies.
    Policymaker,
    /// One that may set policies, in the virtual host of the path.
    PolicymakerIn,
    /// One that may do everything.
    Administrator,
}

impl Caller {
    /// Lets in the user that the request names.
    ///
    /// # Errors
    /// The response to a user that is not let in.
    pub(crate) fn enter(node: &impl Node, request: &Request) -> Result<Caller, Response> {
        if request.is_own {
            return Caller::own(node);
        }
        let Some((user, password)) = request.credentials() else {
            let realm = "Basic realm=\"RabbitMQ Management\"".to_owned();
            return Err(match request.is_script {
                true => Response { login: Attempt::None, ..Response::wrong_login() },
                false => Response::empty(401).with("www-authenticate", realm),
            });
        };
        let login = Login { user, password, is_own: false };
        let (asked, is_loopback) = (login.clone(), request.is_loopback);
        let (claim, vhosts, entered) = node.look(move |catalog| {
            let claim = Claim::new(catalog, &asked.user, &asked.password, is_loopback);
            (claim, catalog.vhost_numbers(), catalog.vhosts_of(&asked.user))
        })?;
        let about = node.about();
        let origin = Some(Origin::of(request.from));
        let found: Tried = match &request.tried {
            Some(tried) => (**tried).clone(),
            None => match claim.judge(node.now(), &about.guard, origin, &about.access) {
                Judged::Done(found) => found,
                // No thread waits for it that others could have meanwhile.
                Judged::Trial(trial) if request.takes_turns => return Err(Response::untried(trial)),
                Judged::Trial(trial) => node.carry_out(trial)?,
            },
        };
        // A request with a large body comes again with it, and one for events with each of them: neither is counted
        // twice.
        if found.is_err() || !(request.awaits_body || request.seen.is_some()) {
            node.login_tried(found.is_err());
        }
        if found.as_ref().is_err_and(|denied| denied.held_ms().is_none())
            && let (Some(key), Some(sessions)) = (&request.session, &about.web_sessions)
        {
            // Its user is gone, or has another password: it is no guess that would count again and again. One that was
            // not looked at, as somebody else guesses, says nothing.
            sessions.end(key);
        }
        let user = found.map_err(|denied| {
            if denied.held_ms().is_some() && denied.is_told() {
                node.log(format!("HTTP login refused: {}", denied.reason));
            }
            denied.held_ms().map_or_else(Response::wrong_login, Response::held_back)
        })?;
        let tags = user.tags.iter().map(|tag| tag.to_string()).collect();
        let caller = Caller { login, tags, vhosts, entered };
        if ["management", "policymaker", "monitoring", "administrator"].iter().any(|tag| caller.is(tag)) {
            Ok(caller)
        } else {
            Err(Response::not_authorised("Not management user").logged_in())
        }
    }

    pub(crate) fn is(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }

    pub(crate) fn is_administrator(&self) -> bool {
        self.is("administrator")
    }

    pub(crate) fn is_monitor(&self) -> bool {
        self.is_administrator() || self.is("monitoring")
    }

    fn is_policymaker(&self) -> bool {
        self.is_administrator() || self.is("policymaker")
    }

    /// Whether things of a virtual host are shown to this user.
    pub(crate) fn sees(&self, vhost: &str) -> bool {
        self.vhosts.get(vhost).is_some_and(|id| self.may_see(*id))
    }

    fn may_see(&self, vhost: VhostId) -> bool {
        self.is_administrator() || self.entered.contains(&vhost)
    }

    /// The virtual hosts that this user sees.
    pub(crate) fn visible(&self) -> impl Iterator<Item = (&str, VhostId)> {
        let seen = self.vhosts.iter().filter(|(_, id)| self.may_see(**id));
        seen.map(|(name, id)| (&**name, *id))
    }

    /// The number of a virtual host.
    pub(crate) fn vhost(&self, name: &str) -> Result<VhostId, Response> {
        self.vhosts.get(name).copied().ok_or_else(Response::not_found)
    }

    /// Whether a connection of this user and in this virtual host is shown.
    pub(crate) fn sees_connection(&self, user: &str, vhost: &str) -> bool {
        self.is_monitor() || (self.login.user == user && self.sees(vhost))
    }

    /// Whether this user has the rights for a request, in this virtual host where the path names one.
    ///
    /// # Errors
    /// The response to a user that has not.
    pub(crate) fn check(&self, need: Need, vhost: Option<&str>, is_read: bool) -> Result<(), Response> {
        let no = |text: &str| Err(Response::not_authorised(text));
        match need {
            Need::Nobody | Need::User => Ok(()),
            Need::Monitor if self.is_monitor() => Ok(()),
            Need::Monitor => no("Not monitor user"),
            Need::Administrator if self.is_administrator() => Ok(()),
            Need::Administrator => no("Not administrator user"),
            Need::Policymaker | Need::PolicymakerIn if !self.is_policymaker() => {
                no("User not authorised to access object")
            }
            Need::Policymaker => Ok(()),
            Need::Vhost | Need::PolicymakerIn => {
                let name = vhost.unwrap_or_default();
                match self.vhosts.contains_key(name) {
                    true if self.sees(name) => Ok(()),
                    true => Err(Response::error(404, "not_found", "Not Found")),
                    false if is_read => Err(Response::not_found()),
                    false => Err(Response::error(404, "not_found", "vhost_not_found")),
                }
            }
        }
    }
}

impl Caller {
    /// A caller without a user, for requests that take none.
    pub(crate) fn nobody() -> Caller {
        let login = Login { user: String::new(), password: String::new(), is_own: false };
        Caller { login, tags: Vec::new(), vhosts: Arc::default(), entered: Arc::default() }
    }

    /// The node itself.
    fn own(node: &impl Node) -> Result<Caller, Response> {
        let vhosts = node.look(Catalog::vhost_numbers)?;
        let login = Login { user: TOOL_USER.to_owned(), password: String::new(), is_own: true };
        Ok(Caller { login, tags: vec!["administrator".to_owned()], vhosts, entered: Arc::default() })
    }
}
