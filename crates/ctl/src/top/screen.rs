//! The dashboard on a real terminal: keys in, frames out, and the node asked by a thread of its own, so that keys are heard
//! while it works.
//!
//! However it ends, the terminal is as it was before.
#![allow(
    clippy::disallowed_methods,
    reason = "a tool is a process of its own: it waits, and reads the clock"
)]

use super::frame::{draw, rows_on};
use super::overview::{Asked, Overview};
use super::state::{Key, State, Step};
use crate::request::Refusal;
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Milliseconds between two looks at whether a signal or an answer has come.
const LOOK_MS: u64 = 50;

/// A question, and the node's answer to it.
type Answer = (Asked, Result<Overview, Refusal>);

/// Shows it until somebody ends it.
///
/// # Errors
/// The terminal's error.
pub fn run(
    mut state: State,
    ask: impl Fn(&Asked) -> Result<Overview, Refusal> + Send + 'static,
) -> io::Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, is_over.clone())?;
    }
    let (questions, asked) = channel::<Asked>();
    let (answers, overview) = channel();
    // It ends with the process: an answer that does not come holds up no end.
    std::thread::Builder::new().name("asking".into()).spawn(move || {
        while let Ok(question) = asked.recv() {
            let answer = ask(&question);
            if answers.send((question, answer)).is_err() {
                return;
            }
        }
    })?;
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Nobody is left to hear of a terminal that is gone.
        let _ = execute!(io::stdout(), cursor::Show);
        before(panic);
    }));
    // This too has a panic restore the terminal, before its message is printed.
    let mut terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
    let outcome = show(&mut terminal, &mut state, &is_over, &questions, &overview);
    let restored = terminal.show_cursor().and(ratatui::try_restore());
    outcome.and(restored)
}

fn show(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    is_over: &AtomicBool,
    questions: &Sender<Asked>,
    overview: &Receiver<Answer>,
) -> io::Result<()> {
    let mut next = Instant::now();
    let mut begun = None;
    state.resize(rows_on(terminal.size()?.height));
    let mut is_drawn = false;
    loop {
        if begun.is_none() && Instant::now() >= next && (!state.is_paused || state.overview.is_none()) {
            begun = Some(Instant::now());
            if questions.send(state.asked()).is_err() {
                return Err(io::Error::other("the thread that asks the node has ended"));
            }
        }
        match overview.try_recv() {
            Ok((asked, answer)) => {
                let took = begun.take().map_or(Duration::ZERO, |begun: Instant| begun.elapsed());
                let is_wanted = asked == state.asked();
                match answer {
                    Ok(overview) => state.hear(&asked, overview),
                    Err(refusal) => state.miss(refusal.message),
                }
                let pause = state.pause_ms(took.as_millis() as u64);
                // Somebody waits for another page already.
                next = Instant::now() + if is_wanted { Duration::from_millis(pause) } else { Duration::ZERO };
                is_drawn = false;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                return Err(io::Error::other("the thread that asks the node has ended"));
            }
        }
        if !is_drawn {
            terminal.draw(|frame| draw(frame, state))?;
            is_drawn = true;
        }
        if is_over.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut patience = Duration::from_millis(LOOK_MS);
        // All that is typed is heard before the next frame.
        while event::poll(patience)? {
            patience = Duration::ZERO;
            let step = match event::read()? {
                Event::Key(typed) => match key(&typed) {
                    Some(key) => state.key(key),
                    None => continue,
                },
                Event::Resize(_, lines) => state.resize(rows_on(lines)),
                _ => continue,
            };
            is_drawn = false;
            match step {
                Step::Draw => {}
                Step::Ask => next = Instant::now(),
                Step::End => return Ok(()),
            }
        }
    }
}

fn key(typed: &KeyEvent) -> Option<Key> {
    if typed.kind == KeyEventKind::Release {
        return None;
    }
    if typed.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(typed.code, KeyCode::Char('c' | 'd')).then_some(Key::Interrupt);
    }
    Some(match typed.code {
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab | KeyCode::BackTab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
