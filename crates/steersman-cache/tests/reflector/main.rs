//! What is promised of the Reflector. Time stands still while there is anything to do, so an hour costs nothing.

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
