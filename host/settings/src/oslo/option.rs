//! What an option is.

/// An option that a program declares.
#[derive(Debug)]
pub(crate) struct Opt {
    /// Its section.
    pub(crate) group: &'static str,
    /// Its name.
    pub(crate) name: &'static str,
    /// What its value is.
    pub(crate) kind: Kind,
    /// What it is if nobody sets it, as it would be written in a file.
    pub(crate) default: Option<&'static str>,
    /// Its value is printed nowhere.
    pub(crate) secret: bool,
    /// By what other names it goes.
    pub(crate) others: &'static [Other],
}

/// Type of a value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// One of these.
    Choice(&'static [&'static str]),
    /// `true`, `1`, `on`, `yes` and their opposites, in any case.
    Boolean,
    /// A whole number, within these bounds where they are given.
    Whole(Option<i64>, Option<i64>),
    /// A number, not below the bound where one is given.
    Fraction(Option<i64>),
    /// A URI with a scheme and a host.
    Uri,
    /// An IP address or a host name.
    Host,
    /// Texts, separated by commas; each one of these, if there are any.
    List(&'static [&'static str]),
    /// `name:value` pairs, separated by commas.
    Dict,
    /// May be set several times; every value counts.
    Texts,
    /// The same, each a list of `name:value` pairs.
    Dicts,
}

impl Kind {
    pub(crate) const PORT: Self = Self::Whole(Some(0), Some(65_535));

    /// Every value counts, not only the last.
    pub(crate) fn is_multi(self) -> bool {
        matches!(self, Self::Texts | Self::Dicts)
    }
}

/// Another name of an option.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) why: Why,
}

/// Why an option has another name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// It was called so, and oslo.config still takes it: in each file after the name of today.
    Renamed,
    /// It was called so, and nobody else takes it any more: it counts if the name of today is in no file.
    Former,
    /// It is called so in another place; both names are as good. Two different values are a mistake.
    Equal,
}

impl Opt {
    /// `[group] name`
    pub(crate) fn label(&self) -> String {
        format!("[{}] {}", self.group, self.name)
    }
}
