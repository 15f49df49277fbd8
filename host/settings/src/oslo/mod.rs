//! Files as oslo.config reads them: the format of `ironic.conf`.
//!
//! [`files`] finds the files, [`lines`] turns the text of each into assignments, [`option`] says what an option is,
//! [`parse`] types its value, and [`lookup`] answers what an option is set to by several files, with `$` references
//! replaced. Nothing here knows an option of Ironic, and no value is printed by anything here: it may be a password.

pub(crate) mod files;
pub(crate) mod lines;
pub(crate) mod lookup;
pub(crate) mod option;
#[cfg(test)]
pub(crate) mod oracle;
pub(crate) mod parse;
mod python;
mod substitute;
