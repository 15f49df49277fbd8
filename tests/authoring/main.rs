//! Authors of plugins get what they are told: the guide is followed word for word in each language, every role is made, built
//! and rehearsed in each, and so are the examples.

mod desk;
mod examples;
mod guide;
mod refusals;
mod roles;
