//! What the tasks send to the loop.

use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::core::Event;
use super::lines::Lines;
use super::screen::Source;

/// How many messages wait. Processes that print faster than the terminal shows wait.
const MESSAGES_MAX: usize = 1024;

#[derive(Debug)]
pub(super) enum Message {
    /// A line to print.
    Line(Source, String),
    Event(Event),
}

/// Sends to the loop. At the end of the command, everything is dropped.
#[derive(Debug, Clone)]
pub(super) struct Sender(mpsc::Sender<Message>);

/// A channel to the loop.
pub(super) fn channel() -> (Sender, mpsc::Receiver<Message>) {
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    (Sender(sender), receiver)
}

impl Sender {
    pub(super) async fn line(&self, source: Source, text: impl Into<String>) {
        let _ = self.0.send(Message::Line(source, text.into())).await;
    }

    pub(super) async fn event(&self, event: Event) {
        let _ = self.0.send(Message::Event(event)).await;
    }

    /// Sends from a thread. Returns `false` at the end.
    pub(super) fn send_blocking(&self, message: Message) -> bool {
        self.0.blocking_send(message).is_ok()
    }

    /// Shows an output until its end.
    pub(super) fn show(
        &self,
        source: Source,
        output: Option<impl AsyncRead + Unpin + Send + 'static>,
    ) -> JoinHandle<()> {
        let sender = self.clone();
        tokio::spawn(async move {
            let Some(output) = output else { return };
            let mut lines = Lines::new(output);
            while let Some(line) = lines.next().await {
                sender.line(source, line).await;
            }
        })
    }
}
