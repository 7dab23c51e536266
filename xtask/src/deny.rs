//! `cargo deny`: licences, sources and bans of every dependency, and advisories when their database can be had.
