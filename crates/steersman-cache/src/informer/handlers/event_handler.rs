//! The trait of handlers, and handlers made of functions.

use super::Event;
use crate::Cached;

/// Receives every addition, update and deletion of an object.
///
/// Calls come one after the other, on a task of the handler's own. They must not block: add a key
/// to a work queue, and do the work elsewhere. A panic is caught and counted, and the next call
/// follows. A handler may call its informer, and may remove itself (test
/// `a_handler_may_use_its_informer`).
///
/// **Memory.** Each handler has a buffer of its own. Beyond 2,048 waiting events, later ones are
/// merged by object, so that a stuck handler takes memory by the number of objects. Several updates
/// become one, from the last state that the handler received. An object that was added and deleted
/// since may be left out. No deletion of an object that the handler knows is missing.
pub trait EventHandler<K>: Send + 'static {
    /// An object was added. `initial`: it existed when the informer started, or when this handler
    /// was added.
    fn on_add(&mut self, object: &Cached<K>, initial: bool);

    /// An object was modified, or is sent again by a resync: then both have the same version.
    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>);

    /// An object was deleted. `final_state_unknown`: the deletion was not seen, and `object` is the
    /// last state that was.
    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool);

    /// Receives every event. The default calls the method for its variant; override it to receive
    /// events by reference.
    fn on_event(&mut self, event: &Event<K>) {
        match event {
            Event::Add { object, initial } => self.on_add(object, *initial),
            Event::Update { old, new } => self.on_update(old, new),
            Event::Delete { object, final_state_unknown } => self.on_delete(object, *final_state_unknown),
        }
    }
}

/// A handler that calls one function with every event.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # use steersman_cache::{Event, EventHandler, handler};
/// let print = handler(|event: &Event<Pod>| println!("{}", event.object().meta().name()));
/// # fn is_handler(_: impl EventHandler<Pod>) {}
/// # is_handler(print);
/// ```
pub fn handler<K: 'static>(function: impl FnMut(&Event<K>) + Send + 'static) -> impl EventHandler<K> {
    Function(function)
}

struct Function<F>(F);

impl<K: 'static, F: FnMut(&Event<K>) + Send + 'static> EventHandler<K> for Function<F> {
    fn on_add(&mut self, object: &Cached<K>, initial: bool) {
        (self.0)(&Event::Add { object: object.clone(), initial });
    }

    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>) {
        (self.0)(&Event::Update { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool) {
        (self.0)(&Event::Delete { object: object.clone(), final_state_unknown });
    }

    fn on_event(&mut self, event: &Event<K>) {
        (self.0)(event);
    }
}

/// Passes on only the objects that match a filter. An object that begins to match is added, and one
/// that no longer matches is deleted.
#[derive(Debug, Clone)]
pub struct FilteringHandler<F, H> {
    /// The filter.
    pub filter: F,
    /// Receives the objects that match.
    pub handler: H,
}

impl<K, F, H> EventHandler<K> for FilteringHandler<F, H>
where
    F: FnMut(&Cached<K>) -> bool + Send + 'static,
    H: EventHandler<K>,
{
    fn on_add(&mut self, object: &Cached<K>, initial: bool) {
        if (self.filter)(object) {
            self.handler.on_add(object, initial);
        }
    }

    fn on_update(&mut self, old: &Cached<K>, new: &Cached<K>) {
        match ((self.filter)(old), (self.filter)(new)) {
            (true, true) => self.handler.on_update(old, new),
            (false, true) => self.handler.on_add(new, false),
            (true, false) => self.handler.on_delete(old, false),
            (false, false) => {}
        }
    }

    fn on_delete(&mut self, object: &Cached<K>, final_state_unknown: bool) {
        if (self.filter)(object) {
            self.handler.on_delete(object, final_state_unknown);
        }
    }
}
