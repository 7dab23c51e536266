//! Programs around an operator of guestbooks.

mod definitions;
mod develop;
mod flags;
mod guestbook;
mod manifests;
mod process;
mod run;
