//! What adds of a key carry to its worker.

use std::time::Instant;

/// What an add of a key carries, such as its cause. The queue holds one payload for each key and
/// merges the payloads of further adds into it. A worker gets it with the key. `()` is the payload
/// of a queue whose keys carry nothing.
pub trait Payload: Default {
    /// Merges the payload of a further add at `now`. `until` is the end of its delay, if it has
    /// one.
    ///
    /// The queue calls it under its lock: it must not block, panic or use the queue. The size of
    /// the result has to be bounded, however often the key is added.
    fn merge(&mut self, added: Self, now: Instant, until: Option<Instant>);
}

impl Payload for () {
    #[inline]
    fn merge(&mut self, (): Self, _: Instant, _: Option<Instant>) {}
}

#[cfg(test)]
#[cfg(not(steersman_loom))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{AddOptions, Core, Outcome, WorkQueue, controller_runtime_default};

    /// Notes what was added, and until when it was delayed.
    #[derive(Debug, Default, PartialEq)]
    struct Notes(Vec<(&'static str, Option<Instant>)>);

    impl Notes {
        fn of(note: &'static str) -> Self {
            Self(vec![(note, None)])
        }
    }

    impl Payload for Notes {
        fn merge(&mut self, added: Self, _: Instant, until: Option<Instant>) {
            self.0.extend(added.0.into_iter().map(|(note, _)| (note, until)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_gets_what_the_adds_of_its_key_carried() {
        let mut core: Core<&str, Notes> = Core::with_payloads(controller_runtime_default());
        core.set_timed();
        let queue = WorkQueue::from_core(core);
        let start = tokio::time::Instant::now().into_std();
        queue.add_with_payload("a", AddOptions::new(), Notes::of("one"));
        queue.add_with_payload("b", AddOptions::new(), Notes::of("other"));
        tokio::time::advance(Duration::from_secs(3)).await;
        queue.add_with_payload("a", AddOptions::new().priority(5), Notes::of("two"));
        assert_eq!(queue.waiting(1), [("a", Duration::from_secs(3))]);

        let mut item = queue.get().await.unwrap();
        assert_eq!((*item, item.waited()), ("a", Duration::from_secs(3)));
        assert_eq!(item.take_payload(), Notes(vec![("one", None), ("two", None)]));
        assert_eq!(item.take_payload(), Notes::default());
        // While a worker holds the key, for the next time.
        queue.add_with_payload("a", AddOptions::new().after(Duration::from_secs(60)), Notes::of("later"));
        let delay = item.finish_with(Outcome::RequeueAfter(Duration::from_secs(9)), Notes::of("again"));
        assert_eq!(delay, Some(Duration::from_secs(9)));
        let delays = ["a", "b", "none"].map(|key| queue.delay_of(&key));
        assert_eq!(delays, [Some(Duration::from_secs(9)), None, None], "b is ready");

        let other = queue.get().await.unwrap();
        assert_eq!(*other, "b");
        assert_eq!(other.finish_with(Outcome::Done, Notes::of("nothing comes back")), None);
        let mut item = queue.get().await.unwrap();
        let ends = |seconds: u64| Some(start + Duration::from_secs(3 + seconds));
        assert_eq!(item.take_payload(), Notes(vec![("later", ends(60)), ("again", ends(9))]));
        item.done();
        queue.add("b");
        assert_eq!(queue.get().await.unwrap().take_payload(), Notes::default(), "the slot was emptied");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_given_back_keeps_its_payload_its_priority_and_its_failures() {
        let core: Core<&str, Notes> = Core::with_payloads(controller_runtime_default());
        let queue = WorkQueue::from_core(core);
        queue.add_with_payload("a", AddOptions::new().rate_limited().priority(5), Notes::of("one"));
        let item = queue.get().await.unwrap();
        queue.add_with_payload("a", AddOptions::new(), Notes::of("two"));
        item.give_back();
        assert_eq!((queue.len(), queue.retries(&"a")), (1, 1));
        let mut item = queue.get().await.unwrap();
        assert_eq!((item.priority(), queue.retries(&"a")), (5, 1));
        let notes = item.take_payload().0.into_iter().map(|(note, _)| note);
        assert_eq!(notes.collect::<Vec<_>>(), ["one", "two"]);
        item.done();
        queue.add("a");
        let item = queue.get().await.unwrap();
        queue.shut_down();
        item.give_back();
        assert!(queue.get().await.is_none(), "nothing comes back after the end");
    }
}
