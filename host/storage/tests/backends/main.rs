//! Both backends through their public face.

#[cfg(test)]
mod common;
#[cfg(test)]
mod embedded;
#[cfg(test)]
mod web_folder;
#[cfg(test)]
mod web_root;
