//! The guarantees of the Reflector. Time is paused, so an hour costs nothing.

mod back_off;
mod embedded;
mod ends;
mod http_requests;
mod lists;
mod script;
mod status;
mod streaming;
mod unreadable;
mod watches;
