//! Handshakes of TLS at the ports of HTTP, whose arithmetic is done on the thread that serves all clients.
//!
//! A handshake may cost as much as many requests, and anybody may begin one. So handshakes are worked on one after the
//! other, addresses taking turns, and between two the thread sees to all that waits.

use management::{Block, Rota};
use rustls::ServerConfig;
use rustls::server::Acceptor;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

/// The handshakes that wait for their turn.
#[derive(Default)]
pub struct Handshakes(Mutex<Line>);

struct Line {
    waiting: Rota<Block, oneshot::Sender<Turn>>,
    is_busy: bool,
}

impl Default for Line {
    fn default() -> Line {
        Line { waiting: Rota::new(1), is_busy: false }
    }
}

impl Handshakes {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of a handshake from here, once it is there.
    async fn turn(self: &Arc<Handshakes>, from: Block) -> Option<Turn> {
        let (sender, receiver) = oneshot::channel();
        let is_busy = {
            let mut line = self.line();
            line.waiting.push(from, sender);
            std::mem::replace(&mut line.is_busy, true)
        };
        if !is_busy {
            self.call();
        }
        receiver.await.ok()
    }

    /// Gives the turn to the next that still waits for it.
    fn call(self: &Arc<Handshakes>) {
        let mut line = self.line();
        while let Some((from, next)) = line.waiting.pop() {
            line.waiting.end(&from);
            if next.is_closed() {
                continue;
            }
            drop(line);
            // One that is given up meanwhile drops its turn, which calls the next.
            let _ = next.send(Turn(self.clone()));
            return;
        }
        line.is_busy = false;
    }

    /// The stream behind a handshake.
    ///
    /// # Errors
    /// The handshake failed.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Arc<Handshakes>,
        stream: S,
        from: Block,
        config: Arc<ServerConfig>,
    ) -> io::Result<TlsStream<S>> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let turn = self.turn(from).await;
        let rest = hello.into_stream(config);
        // All that is ready has its time before the next handshake.
        yield_now().await;
        drop(turn);
        rest.await
    }
}

/// The turn of a handshake; the next begins when it is dropped.
struct Turn(Arc<Handshakes>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.call();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use std::sync::mpsc::{Receiver, channel};
    use tokio::task::JoinHandle;

    /// The order in which handshakes from these addresses have their turns, of which the first is under way when the
    /// others come, and those at `gone` are given up before.
    fn order(from: &[u8], gone: &[usize]) -> Vec<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("is made");
        runtime.block_on(async {
            let handshakes = Arc::new(Handshakes::default());
            let (told, order): (_, Receiver<usize>) = channel();
            let first = handshakes.turn(Block::of(IpAddr::from([127, 0, 0, from[0]]))).await;
            let others: Vec<JoinHandle<()>> = (1..from.len())
                .map(|number| {
                    let (handshakes, told) = (handshakes.clone(), told.clone());
                    let block = Block::of(IpAddr::from([127, 0, 0, from[number]]));
                    tokio::spawn(async move {
                        let turn = handshakes.turn(block).await;
                        let _ = told.send(number);
                        yield_now().await;
                        drop(turn);
                    })
                })
                .collect();
            yield_now().await;
            gone.iter().for_each(|number| others[number - 1].abort());
            yield_now().await;
            drop((first, told));
            for other in others {
                // One that was given up ends so.
                let _ = other.await;
            }
            assert!(!handshakes.line().is_busy);
            order.into_iter().collect()
        })
    }

    #[test]
    fn addresses_take_turns() {
        assert_eq!(order(&[9], &[]), [0; 0]);
        assert_eq!(order(&[9, 9, 9, 9, 1, 2], &[]), [1, 4, 5, 2, 3]);
    }

    #[test]
    fn a_client_that_is_gone_holds_up_nobody() {
        assert_eq!(order(&[9, 9, 9, 9, 1, 2], &[1, 4]), [5, 2, 3]);
        assert_eq!(order(&[9, 1, 1], &[1, 2]), [0; 0]);
    }
}
