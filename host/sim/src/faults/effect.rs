//! What a rule does to one request, and how an answer that it spoils goes out.

use std::time::Duration;

use serde::Deserialize;

/// What a matching rule does to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Only the delay.
    None,
    /// Answer this instead of doing anything.
    Answer {
        status: u16,
        body: AnswerBody,
        headers: Vec<(String, String)>,
    },
    /// Never answer.
    Hang,
    /// Close the connection instead of answering; the request was not carried out.
    Drop,
    /// Reset the connection.
    Reset(ResetAt),
    /// Carry it out and cut the reply's body after this many bytes.
    Truncate(usize),
    /// Carry it out; the reply's body comes in chunks of this many bytes.
    Split(usize),
    /// Carry it out; the reply's body makes no sense.
    Content(Content),
    /// Carry it out; a read says what the same read said when the rule was first due.
    Stale,
    /// Carry it out; the slot keeps saying `Inserted` for this long.
    StaleInserted(Duration),
    /// Refuse a new session as if the table were full.
    SessionTableFull,
    /// Say yes to an insert and mount nothing.
    NotMounted,
    /// Carry it out; the BMC resets itself before it answers.
    BmcReset,
    /// The BMC's clock jumps by so many seconds before it looks at the request: sessions may be over, and `Date` is wrong.
    ClockSkew(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerBody {
    /// Text as given.
    Text(String),
    /// An error document with this message id.
    Message(String),
    Empty,
}

/// Where a connection is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ResetAt {
    /// While the request comes in, which is not carried out.
    Request,
    /// In the middle of the answer; the request was carried out.
    Answer,
}

/// How a reply's body makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Content {
    /// Bytes of no meaning in the length of the real body, said to be what they should be.
    Garbage,
    /// A page of HTML that says so.
    Html,
    /// The real body, said to be a picture.
    WrongType,
    /// Nothing.
    Empty,
    /// Text that ends in the middle of a value, in a message of the right length.
    Unfinished,
}

/// How an answer's body goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// The body ends with the connection after this many bytes.
    pub(crate) cut: Option<usize>,
    /// The body comes in chunks of this many bytes.
    pub(crate) split: Option<usize>,
    /// Where the body is cut the connection is reset, not closed.
    pub(crate) reset: bool,
    /// Seconds by which the clock is wrong.
    pub(crate) skew: i64,
}

impl Effect {
    /// How the answer to a request that was carried out goes out, its body being so long.
    pub(crate) fn delivery(&self, length: usize) -> Delivery {
        let whole = Delivery::default();
        match self {
            Self::Truncate(bytes) => Delivery {
                cut: Some(*bytes),
                ..whole
            },
            Self::Reset(ResetAt::Answer) => Delivery {
                cut: Some(length / 2),
                reset: true,
                ..whole
            },
            Self::Split(bytes) => Delivery {
                split: Some(*bytes),
                ..whole
            },
            Self::ClockSkew(skew) => Delivery { skew: *skew, ..whole },
            _ => whole,
        }
    }
}

impl Content {
    /// The body instead of `body`, and the content type instead of `kind`.
    pub(crate) fn spoil<'a>(self, body: &[u8], kind: &'a str) -> (Vec<u8>, &'a str) {
        match self {
            Self::Garbage => (garbage(body.len().max(16)), kind),
            Self::Html => (
                b"<html><head><title>Service</title></head><body><h1>It works!</h1></body></html>\r\n".to_vec(),
                "text/html",
            ),
            Self::WrongType => (body.to_vec(), "image/png"),
            Self::Empty => (Vec::new(), kind),
            Self::Unfinished => (body[..body.len() - body.len() / 3].to_vec(), kind),
        }
    }
}

/// The same bytes at each call, control bytes and broken UTF-8 among them.
pub(crate) fn garbage(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        // xorshift (Marsaglia 2003)
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}
