//! An administrator at several nodes, who makes users and deletes them.
//!
//! Neither may be done twice: the second time it is refused. So what is asked for again while leaders come and go is seen to
//! have been done once.

use broker::Reply;
use broker::catalog::{Op, Reason, Refusal};
use std::collections::BTreeMap;

/// How far a user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asked,
    There,
    Leaving,
    Gone,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Users {
    stages: Vec<Stage>,
    last_token: u32,
    /// Requests without an answer: by node and token, the user.
    waiting: BTreeMap<(usize, u32), usize>,
}

/// The name of a user.
fn name_of(user: usize) -> Box<str> {
    format!("u{user:04}").into()
}

impl Users {
    /// A user is to be made at a node, or one that is there, `which`, to be deleted: the token, and the request.
    pub fn ask(&mut self, node: usize, which: Option<usize>) -> (u32, Op) {
        self.last_token += 1;
        let op = match which {
            Some(user) => {
                self.stages[user] = Stage::Leaving;
                Op::DeleteUser { name: name_of(user) }
            }
            None => {
                self.stages.push(Stage::Asked);
                let name = name_of(self.stages.len() - 1);
                Op::AddUser { name, password: None, tags: Vec::new() }
            }
        };
        self.waiting.insert((node, self.last_token), which.unwrap_or(self.stages.len() - 1));
        (self.last_token, op)
    }

    /// Those that are there.
    pub fn there(&self) -> Vec<usize> {
        let stages = self.stages.iter().enumerate();
        stages.filter(|(_, stage)| **stage == Stage::There).map(|(user, _)| user).collect()
    }

    /// An answer comes.
    ///
    /// # Errors
    /// What was asked for once is refused.
    pub fn answered(
        &mut self,
        node: usize,
        token: u32,
        answer: &Result<Reply, Refusal>,
    ) -> Result<(), String> {
        let Some(user) = self.waiting.remove(&(node, token)) else { return Ok(()) };
        let stage = &mut self.stages[user];
        match (answer, *stage) {
            (Ok(_), Stage::Asked) => *stage = Stage::There,
            (Ok(_), Stage::Leaving) => *stage = Stage::Gone,
            // It is in doubt.
            (Err(refusal), _) if refusal.reason == Reason::NoLeader => {}
            (answer, stage) => return Err(format!("user {user}, {stage:?}, and the answer is {answer:?}")),
        }
        Ok(())
    }

    /// A node went down: nobody hears its answers.
    pub fn went_down(&mut self, node: usize) {
        self.waiting.retain(|(of, _), _| *of != node);
    }

    /// All nodes rest, and these are there: what was in doubt is so no longer.
    ///
    /// # Errors
    /// A user is there that must not be, or not there that must be.
    pub fn doubts_end(&mut self, is_there: impl Fn(&str) -> bool) -> Result<(), String> {
        for (user, stage) in self.stages.iter_mut().enumerate() {
            *stage = match (*stage, is_there(&name_of(user))) {
                (Stage::There, false) => return Err(format!("user {user} is lost")),
                (Stage::Gone, true) => return Err(format!("user {user} is back though it was deleted")),
                (_, true) => Stage::There,
                (_, false) => Stage::Gone,
            };
        }
        match self.waiting.first_key_value() {
            Some((at, user)) => Err(format!("nobody answers {at:?}, which is about user {user}")),
            None => Ok(()),
        }
    }
}
